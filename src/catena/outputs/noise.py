r"""Noise distributions of sampled losses: a distribution q over ids, sampled with or without replacement.

=============  ==================================================================================================
uniform        all words have the same probability
unigram        :math:`q(w) \propto \max(\mathrm{count}(w), 1)^{\alpha}`; word2vec has a power of 0.75
log_uniform    :math:`q(w) \propto \log\frac{r + 2}{r + 1}` for the word of rank r by frequency, from 0: Zipf's law
=============  ==================================================================================================

A sampler also has the expected count of each word in a sample, which the losses correct for. Its tables are integers,
so that samples and corrections match exactly, in any precision and on any device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.errors import ConfigError

UNIT = 1 << 31
"""A probability of one, in tables."""


def noise_weights(kind: str, counts: Sequence[int], power: float = 1.0, forbidden: Sequence[int] = ()) -> np.ndarray:
    """The unnormalized q of each id, exactly 0 for forbidden ones. ``power`` applies to unigram only."""
    floor = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    match kind:
        case "uniform":
            weights = np.ones(len(floor))
        case "unigram":
            weights = floor**power
        case "log_uniform":
            ranks = np.empty(len(floor))
            ranks[np.argsort(-floor, kind="stable")] = np.arange(len(floor))
            weights = np.log((ranks + 2) / (ranks + 1))
        case _:
            raise ConfigError(
                f"noise must be 'uniform', 'unigram' or 'log_uniform', got {kind!r}. Choose one of the three."
            )
    weights[list(forbidden)] = 0.0
    return weights


class Sampler(nn.Module, ABC):
    """Abstract sampler of at most ``k`` ids at a time.

    ``log_expected[w]`` is the log of the expected count of word w in a sample; 0 for words that are never sampled,
    whose score is -inf anyway. The tables follow from the counts and are not saved.
    """

    log_expected: Tensor
    k: int

    @abstractmethod
    def draw(self) -> Int[Tensor, " c"]:
        """One sample, from torch's default generator of the device."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        # A model in half precision keeps its probabilities: log 1e-5 has only three digits in bfloat16.
        kept = self.log_expected
        super()._apply(fn, recurse)
        self.log_expected = kept.to(self.log_expected.device)
        return self

    def extra_repr(self) -> str:
        return f"k={self.k}"


class ReplacementSampler(Sampler):
    """k independent samples by Walker's alias tables, in time O(k).

    Args:
        weights: the unnormalized q.
        k: the number of samples.
    """

    alias: Tensor
    threshold: Tensor

    def __init__(self, weights: np.ndarray, k: int) -> None:
        super().__init__()
        self.k = k
        expected = k * weights / weights.sum()
        self.register_buffer("log_expected", _log(expected), persistent=False)
        threshold, alias = alias_tables(weights)
        self.register_buffer("threshold", torch.from_numpy(threshold), persistent=False)
        self.register_buffer("alias", torch.from_numpy(alias), persistent=False)

    def draw(self) -> Int[Tensor, " k"]:
        return self.draw_rows(1)[0]

    def draw_rows(self, n: int) -> Int[Tensor, "n k"]:
        """A sample for each of n rows."""
        numbers = torch.randint(len(self.alias) * UNIT, (n, self.k), device=self.alias.device)
        column = numbers // UNIT
        return torch.where(numbers % UNIT < self.threshold[column], column, self.alias[column])


class DistinctSampler(Sampler):
    r"""The different words among k independent samples, sorted; at most k words.

    Word w is among them with probability :math:`1 - (1 - q_w)^k`.

    Args:
        weights: the unnormalized q.
        k: the number of samples.
    """

    def __init__(self, weights: np.ndarray, k: int) -> None:
        super().__init__()
        self.k = k
        self.draws = ReplacementSampler(weights, k)
        never = np.log1p(-np.minimum(weights / weights.sum(), 1 - 1e-16))
        self.register_buffer("log_expected", _log(-np.expm1(k * never)), persistent=False)

    def draw(self) -> Int[Tensor, " c"]:
        return self.draws.draw().unique()


class WithoutReplacement(Sampler):
    r"""k different words, by systematic sampling in a random order (Madow 1949). Time O(v).

    Word w is among them with probability exactly :math:`\pi_w = \min(1, c\,q_w)`, where c makes these sum to k. Words
    of probability one are always included. The others are intervals on a line of length k, in a new random order for
    each sample; every point at a distance of 1 from a random start selects the word of its interval. No interval is
    longer than 1, so no word is selected twice.

    Args:
        weights: the unnormalized q.
        k: the number of words; all possible words, if there are not more than k.
    """

    certain: Tensor
    others: Tensor
    lengths: Tensor

    def __init__(self, weights: np.ndarray, k: int) -> None:
        super().__init__()
        self.k = min(k, int((weights > 0).sum()))
        lengths = inclusion_units(weights, self.k)
        self.register_buffer("log_expected", _log(lengths / UNIT), persistent=False)
        self.register_buffer("certain", torch.from_numpy(np.flatnonzero(lengths == UNIT)), persistent=False)
        others = np.flatnonzero((lengths > 0) & (lengths < UNIT))
        self.register_buffer("others", torch.from_numpy(others), persistent=False)
        self.register_buffer("lengths", torch.from_numpy(lengths[others]), persistent=False)

    def draw(self) -> Int[Tensor, " k"]:
        device = self.others.device
        points = self.k - len(self.certain)
        if points == 0:
            return self.certain
        order = torch.randperm(len(self.others), device=device)
        ends = self.lengths[order].cumsum(0)
        starts = torch.arange(points, device=device) * UNIT + torch.randint(UNIT, (), device=device)
        return torch.cat((self.certain, self.others[order[torch.searchsorted(ends, starts, right=True)]]))


def alias_tables(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of equal width, each divided between the word itself, up to a threshold, and one other (Vose 1991)."""
    v = len(weights)
    heights = (weights / weights.sum() * v).tolist()
    threshold, alias = [UNIT] * v, list(range(v))
    small = [w for w in range(v) if heights[w] < 1]
    large = [w for w in range(v) if heights[w] >= 1]
    while small and large:
        low, high = small.pop(), large[-1]
        threshold[low], alias[low] = round(heights[low] * UNIT), high
        heights[high] -= 1 - heights[low]
        if heights[high] < 1:
            small.append(large.pop())
    return np.array(threshold), np.array(alias)


def inclusion_units(weights: np.ndarray, k: int) -> np.ndarray:
    """The probabilities min(1, c q) that sum to k, in integer units that sum to k units exactly."""
    units = np.where(weights > 0, 0, 0).astype(np.int64)
    free = weights > 0
    left = k
    while left and free.any():
        shares = np.where(free, weights, 0.0) / weights[free].sum() * left
        full = shares >= 1 - 1e-9
        if not full.any():
            units[free] = np.maximum(np.floor(shares[free] * UNIT), 1).astype(np.int64)
            return _with_sum(units, free, left * UNIT + UNIT * int((~free & (units == UNIT)).sum()))
        units[full], free = UNIT, free & ~full
        left = k - int((units == UNIT).sum())
    return units


def _with_sum(units: np.ndarray, free: np.ndarray, total: int) -> np.ndarray:
    """Add the rounding remainder to the largest of the free ones, which have capacity for it."""
    missing = total - int(units.sum())
    places = np.flatnonzero(free)
    places = places[np.argsort(-units[places], kind="stable")]
    for place in places:
        change = int(np.clip(missing, 1 - units[place], UNIT - 1 - units[place]))
        units[place] += change
        missing -= change
        if not missing:
            break
    return units


def _log(expected: np.ndarray) -> Float[Tensor, " v"]:
    return torch.from_numpy(np.log(np.where(expected > 0, expected, 1.0))).float()
