r"""Training of a hidden Markov model: counts of known tags, expected counts of unknown ones.

An iteration of EM (Baum et al. 1970; Rabiner 1989, section III C) never decreases

.. math::  \sum_s \log p(x_s) + \lambda \sum \log \theta

where the second term is the log prior that corresponds to add-:math:`\lambda` smoothing. Expected counts come from a
chain whose scores are log-probabilities. Known tags are fixed, so a fully tagged sentence is simply counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float64, Int32, Int64

from catena.errors import ImpossibleError
from catena.randomness import Randomness
from catena.tasks.tag.config import HmmTaggerConfig
from catena.tasks.tag.features.dictionary import FeatureIds
from catena.tasks.tag.features.learners import FeatureLearner
from catena.tasks.tag.features.likelihood import expectations, split_shards
from catena.tasks.tag.features.model import WeightLayout
from catena.tasks.tag.hmm.model import HmmTables


def dense_layout(v: int, k: int) -> WeightLayout:
    """The layout of a chain with one feature per token, its symbol, and a weight for each tag."""
    first = np.arange(v + 1, dtype=np.int64) * k
    return WeightLayout(k, first, np.tile(np.arange(k, dtype=np.int32), v), np.ones(v * k + k * k + 2 * k, bool))


def normalize_counts(
    counts: Float64[np.ndarray, " n"], layout: WeightLayout, smoothing: float, word_smoothing: float
) -> HmmTables:
    """Normalized counts with additive smoothing. Without smoothing, unseen events are impossible."""
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
    """Each row divided by its sum; uniform if the sum is 0."""
    totals = rows.sum(1, keepdims=True)
    return np.where(totals > 0, rows / np.where(totals > 0, totals, 1.0), 1 / rows.shape[1])


class EmLearner(FeatureLearner):
    """EM. The first iteration starts from counts of known tags, or from random probabilities if there are none.

    Args:
        symbols: the symbols of all words, concatenated.
        first: the start of each sentence, and the end of the last one.
        tags: the tags of all words, -1 if not known.
        k: number of tags.
        v: number of symbols.
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
            # Some smoothing, so that no sequence of unknown tags is impossible from the start.
            return normalize_counts(known, layout, max(settings.smoothing, 0.1), max(settings.word_smoothing, 0.01))
        noise = randomness.numpy("states").uniform(1.0, 1.5, layout.size)
        return normalize_counts(noise, layout, 0.0, 0.0)

    def _known_counts(self) -> Float64[np.ndarray, " n"]:
        """Counts of words with known tags, and of adjacent words that both have known tags."""
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
            return False  # all tags are known and counted
        vector = self.tables.vector()
        summed = expectations(self.data, self.tags, self.layout, vector, "crf", self._shards, held=True)
        if not np.isfinite(summed.total):
            raise ImpossibleError(
                "a training sentence has probability 0. Set model.smoothing and model.word_smoothing to values above 0."
            )
        now = summed.total + self._prior()
        if self.rounds > 0 and np.isfinite(before) and now - before < settings.tolerance * abs(now):
            return False
        self.log_likelihood = now
        self.tables = normalize_counts(summed.counts, self.layout, settings.smoothing, settings.word_smoothing)
        self.rounds += 1
        return True

    def _prior(self) -> float:
        """The log prior of smoothing, which is added to the log-likelihood."""
        settings, tables, total = self.settings, self.tables, 0.0
        if settings.smoothing > 0:
            total += settings.smoothing * float(tables.start.sum() + tables.transitions.sum() + tables.end.sum())
        if settings.word_smoothing > 0:
            total += settings.word_smoothing * float(tables.emissions.sum())
        return total

    @property
    def loss(self) -> float:
        """Negative log-likelihood per sentence at the start of the last iteration."""
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
