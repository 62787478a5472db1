r"""Learning a hidden Markov model: counts of what is known, expected counts of what is not.

A round of EM (Baum et al. 1970; Rabiner 1989, section III C) makes

.. math::  \sum_s \log p(x_s) + \lambda \sum \log \theta

greater or leaves it as it is, where the second term is the prior that smoothing by adding :math:`\lambda` stands for.
Expected counts are those of a chain whose scores are log-probabilities. Tags that are known are held, so that a
sentence that is wholly tagged is simply counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int32, Int64

from catena.errors import ImpossibleError
from catena.randomness import Randomness
from catena.tasks.tag.features.dictionary import FeatureIds
from catena.tasks.tag.features.learners import FeatureLearner
from catena.tasks.tag.features.likelihood import expectations, split_shards
from catena.tasks.tag.features.weights import WeightLayout
from catena.tasks.tag.hmm.config import HmmTaggerConfig


@dataclass(frozen=True, eq=False)
class HmmTables:
    """Log-probabilities: of first tags, of a tag or the end after a tag, and of a symbol with a tag."""

    start: Float64[np.ndarray, " k"]
    transitions: Float64[np.ndarray, "k k"]
    end: Float64[np.ndarray, " k"]
    emissions: Float64[np.ndarray, "k v"]

    def vector(self) -> Float64[np.ndarray, " n"]:
        """As the weights of a chain: those of each symbol with all tags first."""
        return np.concatenate((self.emissions.T.ravel(), self.transitions.ravel(), self.start, self.end))


def dense_layout(v: int, k: int) -> WeightLayout:
    """The layout of a chain with one feature at each token, its symbol, and a weight for each of its tags."""
    first = np.arange(v + 1, dtype=np.int64) * k
    return WeightLayout(k, first, np.tile(np.arange(k, dtype=np.int32), v), np.ones(v * k + k * k + 2 * k, bool))


def normalize_counts(
    counts: Float64[np.ndarray, " n"], layout: WeightLayout, smoothing: float, word_smoothing: float
) -> HmmTables:
    """Shares of counts, with something added to each. What was never met with no smoothing is impossible."""
    k = layout.k
    words = layout.features(counts).reshape(-1, k).T + word_smoothing
    start = layout.start(counts) + smoothing
    onward = np.concatenate((layout.transitions(counts), layout.end(counts)[:, None]), axis=1) + smoothing
    onward, words = _shares(onward), _shares(words)
    with np.errstate(divide="ignore"):
        return HmmTables(
            np.log(_shares(start[None])[0]), np.log(onward[:, :k].copy()), np.log(onward[:, k].copy()), np.log(words)
        )


def _shares(rows: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "n m"]:
    """Each row divided by its sum; alike where that is 0."""
    totals = rows.sum(1, keepdims=True)
    return np.where(totals > 0, rows / np.where(totals > 0, totals, 1.0), 1 / rows.shape[1])


class EmLearner(FeatureLearner):
    """Rounds of EM. The first round counts what is known, or begins from random probabilities where nothing is.

    Args:
        symbols: of all words, one after another.
        first: where each sentence begins, and where the last one ends.
        tags: of all words, -1 where not known.
        k: how many tags there are.
        v: how many symbols there are.
    """

    def __init__(
        self,
        symbols: Int32[np.ndarray, " n"],
        first: Int64[np.ndarray, " s"],
        tags: Int32[np.ndarray, " n"],
        k: int,
        v: int,
        settings: HmmTaggerConfig,
        randomness: Randomness,
    ) -> None:
        self.data = FeatureIds(symbols, np.arange(len(symbols) + 1, dtype=np.int64), first)
        self.tags, self.settings, self.layout = tags, settings, dense_layout(v, k)
        self._shards = split_shards(self.data, np.arange(self.data.sentences), torch.get_num_threads())
        self.rounds, self.log_likelihood = 0, -np.inf
        self.tables = self._begin(randomness)

    def _begin(self, randomness: Randomness) -> HmmTables:
        settings, layout = self.settings, self.layout
        known = self._known_counts()
        if known.any():
            # Something of everything, so that no sequence of what is not known is ruled out from the start.
            return normalize_counts(known, layout, max(settings.smoothing, 0.1), max(settings.word_smoothing, 0.01))
        noise = randomness.numpy("states").uniform(1.0, 1.5, layout.size)
        return normalize_counts(noise, layout, 0.0, 0.0)

    def _known_counts(self) -> Float64[np.ndarray, " n"]:
        """Counts of words with known tags, and of neighbors whose tags are both known."""
        counts, layout, data = np.zeros(self.layout.size), self.layout, self.data
        known = self.tags >= 0
        words = layout.features(counts).reshape(-1, layout.k)
        np.add.at(words, (data.ids[known], self.tags[known]), 1.0)
        inside = np.ones(len(self.tags), bool)
        some = data.first[:-1][data.lengths > 0]
        inside[some] = False
        later = np.flatnonzero(inside)
        both = later[known[later] & known[later - 1]]
        np.add.at(layout.transitions(counts), (self.tags[both - 1], self.tags[both]), 1.0)
        for part, places in ((layout.start, some), (layout.end, data.first[1:][data.lengths > 0] - 1)):
            np.add.at(part(counts), self.tags[places][known[places]], 1.0)
        return counts

    @property
    def counts(self) -> bool:
        return bool(self.tags.min(initial=0) >= 0)

    def step(self) -> bool:
        before, settings = self.log_likelihood, self.settings
        if self.rounds > 0 and self.counts:
            return False  # all is known, and has been counted
        vector = self.tables.vector()
        summed = expectations(self.data, self.tags, self.layout, vector, "crf", self._shards, held=True)
        if not np.isfinite(summed.total):
            raise ImpossibleError(
                "the model gives a sentence of the training data no probability at all: set model.smoothing and "
                "model.word_smoothing above 0"
            )
        now = summed.total + self._prior()
        if self.rounds > 0 and np.isfinite(before) and now - before < settings.tolerance * abs(now):
            return False
        self.log_likelihood = now
        self.tables = normalize_counts(summed.counts, self.layout, settings.smoothing, settings.word_smoothing)
        self.rounds += 1
        return True

    def _prior(self) -> float:
        """What smoothing adds to the log-likelihood."""
        settings, tables, total = self.settings, self.tables, 0.0
        if settings.smoothing > 0:
            total += settings.smoothing * float(tables.start.sum() + tables.transitions.sum() + tables.end.sum())
        if settings.word_smoothing > 0:
            total += settings.word_smoothing * float(tables.emissions.sum())
        return total

    @property
    def loss(self) -> float:
        """Minus the log-likelihood that the last round began with, per sentence."""
        return -self.log_likelihood / max(1, self.data.sentences)

    def vector(self) -> Float64[np.ndarray, " n"]:
        return self.tables.vector()

    def arrays(self) -> dict[str, np.ndarray]:
        tables = self.tables
        return {
            "start": tables.start,
            "transitions": tables.transitions,
            "end": tables.end,
            "emissions": tables.emissions,
            "numbers": np.array([float(self.rounds), self.log_likelihood]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        parts = {name: np.array(array) for name, array in arrays.items()}
        numbers = parts.pop("numbers")
        self.tables = HmmTables(**parts)
        self.rounds, self.log_likelihood = int(numbers[0]), float(numbers[1])
