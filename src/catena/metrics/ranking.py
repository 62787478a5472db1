r"""How high the right answer is ranked among candidates: recall@k and the mean reciprocal rank.

.. math::  \text{recall@}k = \frac{1}{n} \sum_i P(r_i \le k), \qquad \text{MRR} = \frac{1}{n} \sum_i E[1 / r_i]

:math:`r_i` is the rank of the right answer of question i. Candidates with equal scores stand in an order drawn at
random, and what is counted is the expected value: a model that scores all ten candidates alike has recall@1 of 0.1.

A group is a list of questions about the same thing, such as one context with each of its good responses; intervals and
tests draw groups, not questions, which are not independent of one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from catena.errors import DataError
from catena.metrics.measure import Metric, mean_score


class RankCounts(NamedTuple):
    """Where the right answer stands: how many others score higher, and how many the same."""

    above: int
    level: int


_Group = Sequence[RankCounts]


def standing(scores: Sequence[float] | np.ndarray, right: int = 0) -> RankCounts:
    """Where candidate ``right`` stands among all whose scores are given."""
    values = np.asarray(scores, np.float64)
    if not 0 <= right < len(values):
        raise DataError(f"candidate {right} is not one of the {len(values)} that are scored")
    if np.isnan(values).any():
        raise DataError(f"candidates cannot be ranked by scores that are no numbers: {values.tolist()}")
    others = np.delete(values, right)
    return RankCounts(int((others > values[right]).sum()), int((others == values[right]).sum()))


def recall_at_k(where: RankCounts, k: int) -> float:
    """The probability that the right answer is among the first ``k``."""
    return min(max((k - where.above) / (where.level + 1), 0.0), 1.0)


def reciprocal_rank(where: RankCounts) -> float:
    """The expected 1 / rank."""
    return sum(1 / (where.above + 1 + i) for i in range(where.level + 1)) / (where.level + 1)


def recall_measure(k: int) -> Metric:
    """recall@k as a measure over groups."""
    if k < 1:
        raise DataError(f"recall@k needs a k of at least 1, and it is {k}")
    return Metric(f"recall@{k}|ties:expected", _statistics(lambda where: recall_at_k(where, k)), mean_score)


def _statistics(value: Callable[[RankCounts], float]) -> Callable[..., np.ndarray]:
    def statistics(questions: Sequence[object], groups: Sequence[_Group]) -> np.ndarray:
        if len(questions) != len(groups):
            raise DataError(f"there are {len(questions)} groups of questions and {len(groups)} of answers")
        if not groups:
            raise DataError("a ranking of no questions has no score: give at least one")
        return np.array([(sum(value(where) for where in group), len(group)) for group in groups], np.float64)

    return statistics


RECIPROCAL_RANK = Metric("mrr|ties:expected", _statistics(reciprocal_rank), mean_score)
"""The mean reciprocal rank."""
