"""Confidence intervals for proportions, rates, any statistic, and means over runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.measure import signature
from catena.metrics.resampling import bootstrap_sums, check_draws, check_level, drawn_examples
from catena.metrics.special import student_quantile


@dataclass(frozen=True)
class Interval:
    """A value and its confidence interval, with the ``method`` and the number ``n`` of examples."""

    value: float
    low: float
    high: float
    level: float
    method: str
    n: int

    @property
    def signature(self) -> str:
        return signature(self.method, self.n, {"level": f"{100 * self.level:g}"})

    def __contains__(self, number: float | int) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


def wilson_interval(successes: int, n: int, level: float = 0.95) -> Interval:
    """The Wilson interval for a proportion such as an accuracy, accurate also near 0 and 1 (Wilson 1927).

    Args:
        successes: number of correct examples.
        n: number of examples.
        level: level of the interval.
    """
    check_level(level)
    if not (n >= 1 and 0 <= successes <= n):
        raise DataError(f"successes must be from 0 to n and n at least 1, got {successes} and {n}. Check the counts.")
    share = successes / n
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At 0 and n successes the ends are exactly 0 and 1, which rounding may miss.
    low = 0.0 if successes == 0 else middle - half
    high = 1.0 if successes == n else middle + half
    return Interval(share, low, high, level, "wilson", n)


def poisson_interval(count: int, exposure: float | int, level: float = 0.95) -> Interval:
    """The exact interval for a rate, from a count in ``exposure`` units of time or space (Garwood 1936).

    The lower end is the rate at which ``count`` or more events have probability (1 - level) / 2, the upper end the rate
    at which ``count`` or fewer have it.

    Args:
        count: number of events.
        exposure: units of time or space in which they were counted.
        level: level of the interval.
    """
    check_level(level)
    if count < 0 or not exposure > 0:
        raise DataError(f"count must be at least 0 and exposure above 0, got {count} and {exposure}. Check them.")
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else _solve_poisson(count - 1, 1 - tail)
    high = _solve_poisson(count, tail)
    return Interval(count / exposure, low / exposure, high / exposure, level, "poisson", count)


def _solve_poisson(k: int, probability: float) -> float:
    """The mean of a Poisson distribution with P(X <= k) = probability, by bisection."""
    low, high = 0.0, 1.0
    while _poisson_at_most(k, high) > probability:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        if _poisson_at_most(k, middle) > probability:
            low = middle
        else:
            high = middle
    return high


def _poisson_at_most(k: int, mean: float) -> float:
    if mean == 0:
        return 1.0
    return math.fsum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(k + 1))


def fisher_interval(correlation: float, n: int, *, spread: float = 1.0, level: float = 0.95) -> Interval | None:
    """The interval of a correlation of ``n`` pairs by Fisher's transform, with variance ``spread`` / (n - 3).

    ``spread`` is 1 for Pearson's correlation and 1.06 for Spearman's (Fieller, Hartley & Pearson 1957). None for fewer
    than 4 pairs, and for a correlation of 1 or -1 or that does not exist.
    """
    check_level(level)
    if n < 4 or not abs(correlation) < 1:
        return None
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(spread / (n - 3))
    low, high = math.tanh(math.atanh(correlation) - half), math.tanh(math.atanh(correlation) + half)
    return Interval(correlation, low, high, level, "fisher", n)


def bootstrap_interval(
    examples: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    *,
    resamples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """The percentile bootstrap interval for any statistic of a set of examples (Efron 1979).

    Args:
        examples: ``examples[i]`` is example i.
        statistic: maps ``sets[r, i, …]``, example i of set r, to a value for each set, such as
            ``lambda sets: np.median(sets, axis=1)``.
        rng: the random generator.
        resamples: number of resamples.
        level: confidence level.
    """
    examples = np.asarray(examples)
    check_draws(len(examples), resamples, level)
    blocks = [statistic(examples[ids]) for ids in drawn_examples(len(examples), resamples, rng)]
    value = float(statistic(examples[None])[0])
    return _percentiles(value, np.concatenate(blocks), level, len(examples))


def bootstrap_score_interval(
    statistics: Float[np.ndarray, "n s"],
    score: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    *,
    resamples: int = 1000,
    level: float = 0.95,
) -> Interval:
    """The bootstrap interval for a metric that is a function of sums (:class:`catena.metrics.measure.Metric`)."""
    check_draws(len(statistics), resamples, level)
    scores = score(bootstrap_sums(statistics, resamples, rng))
    return _percentiles(float(score(statistics.sum(0))), scores, level, len(statistics))


def mean_interval(values: Sequence[float | int] | np.ndarray, level: float = 0.95) -> Interval:
    """The mean over runs, seeds or folds, with Student's t-interval."""
    check_level(level)
    numbers = [float(value) for value in values]
    n = len(numbers)
    if n < 2:
        raise DataError(f"The number of values must be at least 2 for an interval, got {n}. Run more seeds.")
    mean = math.fsum(numbers) / n
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / (n - 1))
    half = student_quantile((1 + level) / 2, n - 1) * deviation / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, level, "mean|interval:t", n)


def percentile_ends(scores: Float[np.ndarray, "r"], level: float) -> tuple[float, float]:
    """The ends of the middle ``level`` of the scores of resamples."""
    if np.isnan(scores).any():
        raise DataError(
            f"The statistic is nan in {int(np.isnan(scores).sum())} of {len(scores)} resamples, so it has no "
            f"interval. Use a statistic that is defined for every set of examples."
        )
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _percentiles(value: float, scores: np.ndarray, level: float, n: int) -> Interval:
    low, high = percentile_ends(scores, level)
    return Interval(value, low, high, level, f"bootstrap|resamples:{len(scores)}", n)
