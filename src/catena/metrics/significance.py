"""Is the difference between two systems more than chance? Both are scored on the same examples.

A metric is given by the statistics that each example adds, ``statistics[i, j]``, and a function from their
sums to the score (see :class:`catena.metrics.measure.Measure`), so that F1 or BLEU can be tested as well as
accuracy:

    f1 = f1_measure(labels)
    paired_bootstrap(f1.statistics(gold, a), f1.statistics(gold, b), f1.score, rng, metric=f1.name)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.intervals import Interval, percentile_ends
from catena.metrics.measure import as_pairs, signature
from catena.metrics.resampling import bootstrap_sums, check_draws, check_level, swapped_sums
from catena.metrics.special import binomial_at_most

ScoreOfSums = Callable[[np.ndarray], np.ndarray]

LIKELY_CHANCE = 0.05
"""The p-value from which on a sentence says that chance may explain a difference."""


@dataclass(frozen=True)
class Comparison:
    """Two scores, the interval of their difference, and how often chance would set them so far apart."""

    first: float
    second: float
    interval: Interval
    p_value: float
    n: int
    signature: str

    @property
    def difference(self) -> float:
        return self.first - self.second

    def sentence(self, first: str = "the first", second: str = "the second") -> str:
        """The result for people, with the names of both systems."""
        if self.p_value < LIKELY_CHANCE:
            verdict = "chance is an unlikely explanation"
        else:
            verdict = "chance may explain it"
        return (
            f"{first} scores {self.first:.4f} and {second} {self.second:.4f} on {self.n:,} examples: "
            f"a difference of {self.difference:+.4f} ({100 * self.interval.level:g} % interval "
            f"{self.interval.low:+.4f} to {self.interval.high:+.4f}), p = {self.p_value:.2g}: {verdict}"
        )


def paired_bootstrap(
    first: Float[np.ndarray, "n s"],
    second: Float[np.ndarray, "n s"],
    score: ScoreOfSums,
    rng: np.random.Generator,
    *,
    metric: str = "score",
    resamples: int = 10_000,
    level: float = 0.95,
) -> Comparison:
    """Draw the examples again and again, and see how often the better system still wins (Koehn 2004, section
    4).

    Koehn's test asks one side only; the p-value here is for both, twice the share of resamples in which the
    better one does not win, so that it is below 0.05 about where the 95 % interval leaves out 0.
    """
    _check_statistics(first, second)
    check_draws(len(first), resamples, level)
    differences = _bootstrap_differences(first, second, score, resamples, rng)
    close = _rounding(score, first, second)
    against = min(int((differences <= close).sum()), int((differences >= -close).sum()))
    p_value = min(1.0, 2 * (against + 1) / (resamples + 1))
    test = {"test": "paired-bootstrap", "resamples": resamples}
    return _comparison(first, second, score, differences, p_value, level, signature(metric, len(first), test))


def approximate_randomisation(
    first: Float[np.ndarray, "n s"],
    second: Float[np.ndarray, "n s"],
    score: ScoreOfSums,
    rng: np.random.Generator,
    *,
    metric: str = "score",
    shuffles: int = 10_000,
    level: float = 0.95,
) -> Comparison:
    """Swap the two answers of each example by a coin: how often are the scores as far apart? (Noreen 1989,
    2.3.)

    The p-value is for both sides, and never 0: the systems as they are count as one shuffle. The interval is
    that of the paired bootstrap, drawn as often.
    """
    _check_statistics(first, second)
    check_draws(len(first), shuffles, level)
    a, b = swapped_sums(first, second, shuffles, rng)
    observed = abs(float(score(first.sum(0)) - score(second.sum(0))))
    as_far = np.abs(score(a) - score(b)) >= observed - _rounding(score, first, second)
    p_value = (int(as_far.sum()) + 1) / (shuffles + 1)
    differences = _bootstrap_differences(first, second, score, shuffles, rng)
    test = {"test": "approximate-randomisation", "shuffles": shuffles}
    return _comparison(first, second, score, differences, p_value, level, signature(metric, len(first), test))


def mcnemar(
    first_right: Sequence[bool] | np.ndarray, second_right: Sequence[bool] | np.ndarray, level: float = 0.95
) -> Comparison:
    """Compare two accuracies by the examples on which one system is right and the other wrong (McNemar 1947),
    exactly.

    The interval is that of Agresti & Min (2005), section 3: Wald's, with half an example added to each of the
    four cells.
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
        float(a.mean()), float(b.mean()), interval, p_value, n, signature("accuracy", n, {"test": "mcnemar"})
    )


def _check_statistics(first: np.ndarray, second: np.ndarray) -> None:
    if first.shape != second.shape:
        raise DataError(
            f"two systems must be scored on the same examples, but their statistics have the shapes "
            f"{first.shape} and {second.shape}"
        )


def _bootstrap_differences(
    first: np.ndarray, second: np.ndarray, score: ScoreOfSums, resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "r"]:
    sums = bootstrap_sums(np.concatenate((first, second), axis=1), resamples, rng)
    a, b = np.split(sums, 2, axis=1)
    return score(a) - score(b)


def _rounding(score: ScoreOfSums, first: np.ndarray, second: np.ndarray) -> float:
    """What two equal differences may differ by when their terms are added in another order."""
    return 1e-12 * max(1.0, abs(float(score(first.sum(0)))), abs(float(score(second.sum(0)))))


def _comparison(
    first: np.ndarray,
    second: np.ndarray,
    score: ScoreOfSums,
    differences: np.ndarray,
    p_value: float,
    level: float,
    signed: str,
) -> Comparison:
    a, b = float(score(first.sum(0))), float(score(second.sum(0)))
    low, high = percentile_ends(differences, level)
    interval = Interval(a - b, low, high, level, f"bootstrap|resamples:{len(differences)}", len(first))
    return Comparison(a, b, interval, p_value, len(first), signed)
