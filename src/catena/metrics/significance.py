"""Significance tests for the difference between two systems on the same examples.

A metric is given by the statistics of each example, ``statistics[i, j]``, and a function from their sums to the score
(see :class:`catena.metrics.measure.Metric`), so that F1 or BLEU can be tested as well as accuracy:

    f1 = f1_measure(labels)
    approximate_randomization(f1.statistics(gold, a), f1.statistics(gold, b), f1.score, rng, metric=f1.name)

Which test: :func:`approximate_randomization` is valid for any metric and any number of examples, and exact if few
examples differ. :func:`mcnemar` is exact for accuracies. The p-value of :func:`paired_bootstrap` is too small if few
examples differ: with k of them, all in favor of one system, it is about 2 exp(-k), where the exact value is 2 / 2^k.

All tests are about whether the difference would hold on other examples. They ignore the variance between training
runs with different seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.intervals import Interval, percentile_ends
from catena.metrics.measure import as_pairs, signature
from catena.metrics.resampling import all_swapped_sums, bootstrap_sums, check_draws, check_level, swapped_sums
from catena.metrics.special import binomial_at_most

_ScoreOfSums = Callable[[np.ndarray], np.ndarray]

_LIKELY_CHANCE = 0.05
"""The p-value above which a difference is reported as not significant."""
_FEW_DIFFERING = 10
"""The number of differing examples is reported if it is below this."""
MAX_EXACT = 16
"""Maximum number of differing examples for which all 2^k swaps are enumerated."""


@dataclass(frozen=True)
class Comparison:
    """Two scores, the confidence interval of their difference, and its p-value.

    ``differing`` is the number of examples on which the statistics of the two systems differ.
    """

    first: float
    second: float
    interval: Interval
    p_value: float
    n: int
    signature: str
    differing: int | None = None

    @property
    def difference(self) -> float:
        return self.first - self.second

    def sentence(self, first: str = "the first", second: str = "the second") -> str:
        """The result as a sentence with the names of both systems."""
        if self.p_value < _LIKELY_CHANCE:
            verdict = "the difference is significant"
        else:
            verdict = "the difference is not significant"
        return (
            f"{first} scores {self.first:.4f} and {second} {self.second:.4f} on {self.n:,} examples: "
            f"a difference of {self.difference:+.4f} ({100 * self.interval.level:g} % interval "
            f"{self.interval.low:+.4f} to {self.interval.high:+.4f}), p = {self.p_value:.2g}: {verdict}"
            f"{self._few_words()}"
        )

    def _few_words(self) -> str:
        if self.differing is None or self.differing >= _FEW_DIFFERING:
            return ""
        if self.differing == 0:
            return "; the two do not differ on any example"
        return f"; the two differ on {self.differing} example{'s' * (self.differing != 1)} only"


def paired_bootstrap(
    first: Float[np.ndarray, "n s"],
    second: Float[np.ndarray, "n s"],
    score: _ScoreOfSums,
    rng: np.random.Generator,
    *,
    metric: str = "score",
    resamples: int = 10_000,
    level: float = 0.95,
    tolerance: float = 0.0,
) -> Comparison:
    """The paired bootstrap test (Koehn 2004, section 4).

    The p-value is two-sided: twice the fraction of resamples in which the better system does not win, so that it is
    below 0.05 about where the 95 % interval excludes 0. (Koehn's test is one-sided.) It is too small if few examples
    differ; use :func:`approximate_randomization` then, which has the same arguments, with ``shuffles`` for
    ``resamples``.

    Args:
        first: statistics of each example for the first system, as from :attr:`Metric.statistics`.
        second: statistics of the second system, in the same order.
        score: maps sums of statistics to scores.
        rng: source of the resamples.
        metric: name in the signature.
        resamples: number of resamples.
        level: level of the interval of the difference.
        tolerance: rows of statistics that differ by at most this fraction of their size are equal.
    """
    _check_statistics(first, second)
    check_draws(len(first), resamples, level)
    second = _without_rounding(first, second, tolerance)
    differences = _bootstrap_differences(first, second, score, resamples, rng)
    close = _rounding(score, first, second)
    against = min(int((differences <= close).sum()), int((differences >= -close).sum()))
    p_value = min(1.0, 2 * (against + 1) / (resamples + 1))
    test = {"test": "paired-bootstrap", "resamples": resamples}
    return _comparison(first, second, score, differences, p_value, level, signature(metric, len(first), test))


def approximate_randomization(
    first: Float[np.ndarray, "n s"],
    second: Float[np.ndarray, "n s"],
    score: _ScoreOfSums,
    rng: np.random.Generator,
    *,
    metric: str = "score",
    shuffles: int = 10_000,
    level: float = 0.95,
    tolerance: float = 0.0,
) -> Comparison:
    """The approximate randomization test (Noreen 1989, section 2.3).

    The p-value is the fraction of random swaps of the systems' statistics with a difference at least as large. If at
    most :data:`MAX_EXACT` examples differ, all swaps are enumerated and the p-value is exact. Otherwise swaps are
    sampled, and the unswapped systems count as one more. It is two-sided and never 0. The interval is from the paired
    bootstrap.

    Args:
        first: ``first[i, j]`` is the j-th statistic of example i for the first system.
        second: the same for the second system.
        score: maps sums of statistics to the metric.
        rng: the random generator.
        metric: the name for the signature.
        shuffles: number of sampled swaps and resamples.
        level: confidence level of the interval.
        tolerance: an example whose statistics differ by at most this fraction of the largest of them counts as equal,
            such as log-probabilities of one model in two file formats.
    """
    _check_statistics(first, second)
    check_draws(len(first), shuffles, level)
    second = _without_rounding(first, second, tolerance)
    rows = np.flatnonzero((first != second).any(1))
    exact = len(rows) <= MAX_EXACT
    swapped = all_swapped_sums if exact else partial(swapped_sums, shuffles=shuffles, rng=rng)
    gained = swapped(first[rows], second[rows])
    observed = abs(float(score(first.sum(0)) - score(second.sum(0))))
    apart = np.abs(score(first.sum(0) + gained) - score(second.sum(0) - gained))
    as_far = int((apart >= observed - _rounding(score, first, second)).sum())
    p_value = as_far / len(gained) if exact else (as_far + 1) / (shuffles + 1)
    differences = _bootstrap_differences(first, second, score, shuffles, rng)
    test: dict[str, object] = {"test": "approximate-randomization", "shuffles": shuffles}
    if exact:
        test = {"test": "exact-randomization", "differing": len(rows)}
    return _comparison(first, second, score, differences, p_value, level, signature(metric, len(first), test))


def mcnemar(
    first_right: Sequence[bool] | np.ndarray, second_right: Sequence[bool] | np.ndarray, level: float = 0.95
) -> Comparison:
    """McNemar's exact test of two accuracies, from the examples on which only one system is correct (McNemar 1947).

    The interval is from Agresti & Min (2005), section 3: Wald's, with half an example added to each of the four cells.

    Args:
        first_right: whether the first system is correct, for each example.
        second_right: whether the second system is correct, in the same order.
        level: level of the interval of the difference.
    """
    check_level(level)
    a, b = (np.asarray(right, dtype=bool) for right in as_pairs("McNemar's test", first_right, second_right))
    n = len(a)
    wins, losses = int((a & ~b).sum()), int((b & ~a).sum())
    p_value = min(1.0, 2 * binomial_at_most(min(wins, losses), wins + losses))
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (wins - losses) / (n + 2)
    half = z * math.sqrt(wins + losses + 1 - (wins - losses) ** 2 / (n + 2)) / (n + 2)
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    interval = Interval((wins - losses) / n, low, high, level, "agresti-min", n)
    return Comparison(
        float(a.mean()),
        float(b.mean()),
        interval,
        p_value,
        n,
        signature("accuracy", n, {"test": "mcnemar"}),
        wins + losses,
    )


def _check_statistics(first: np.ndarray, second: np.ndarray) -> None:
    if first.shape != second.shape:
        raise DataError(
            f"Both systems must have statistics of the same shape, got {first.shape} and {second.shape}. Score them on "
            f"the same examples."
        )


def _without_rounding(first: np.ndarray, second: np.ndarray, tolerance: float) -> np.ndarray:
    """The second statistics, replaced by the first in rows that are equal up to the tolerance."""
    size = np.maximum(np.abs(first), np.abs(second)).max(1)
    equal = np.abs(first - second).max(1) <= tolerance * size
    return np.where(equal[:, None], first, second)


def _bootstrap_differences(
    first: np.ndarray, second: np.ndarray, score: _ScoreOfSums, resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "r"]:
    sums = bootstrap_sums(np.concatenate((first, second), axis=1), resamples, rng)
    a, b = np.split(sums, 2, axis=1)
    return score(a) - score(b)


def _rounding(score: _ScoreOfSums, first: np.ndarray, second: np.ndarray) -> float:
    """The rounding error between equal differences whose terms are added in another order."""
    return 1e-12 * max(1.0, abs(float(score(first.sum(0)))), abs(float(score(second.sum(0)))))


def _comparison(
    first: np.ndarray,
    second: np.ndarray,
    score: _ScoreOfSums,
    differences: np.ndarray,
    p_value: float,
    level: float,
    signed: str,
) -> Comparison:
    a, b = float(score(first.sum(0))), float(score(second.sum(0)))
    low, high = percentile_ends(differences, level)
    interval = Interval(a - b, low, high, level, f"bootstrap|resamples:{len(differences)}", len(first))
    differing = int((first != second).any(1).sum())
    return Comparison(a, b, interval, p_value, len(first), signed, differing)
