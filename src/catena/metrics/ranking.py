r"""Ranking metrics: recall@k and the mean reciprocal rank.

.. math::  \text{recall@}k = \frac{1}{n} \sum_i P(r_i \le k), \qquad \text{MRR} = \frac{1}{n} \sum_i E[1 / r_i]

:math:`r_i` is the rank of the correct candidate of question i. Candidates with equal scores are in random order, and
the metric is the expected value: a model that gives all ten candidates the same score has recall@1 of 0.1.

A group is a list of related questions, such as one context with each of its correct responses. Intervals and tests
resample groups, because the questions of a group are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from catena.errors import DataError
from catena.metrics.measure import Metric, mean_score


class RankCounts(NamedTuple):
    """The rank of the correct candidate: how many others score higher, and how many the same."""

    above: int
    level: int


_Group = Sequence[RankCounts]


def standing(scores: Sequence[float] | np.ndarray, right: int = 0) -> RankCounts:
    """The rank of candidate ``right`` among all scores."""
    values = np.asarray(scores, np.float64)
    if not 0 <= right < len(values):
        raise DataError(
            f"The candidate must be one of the {len(values)} scored ones, got {right}. Use a smaller index."
        )
    if np.isnan(values).any():
        raise DataError(f"Scores of candidates must be numbers, got {values.tolist()}. Remove the nan.")
    others = np.delete(values, right)
    return RankCounts(int((others > values[right]).sum()), int((others == values[right]).sum()))


def recall_at_k(where: RankCounts, k: int) -> float:
    """The probability that the correct candidate is among the first ``k``.

    Args:
        where: how many candidates score above the correct one, and how many the same.
        k: number of candidates that are returned.
    """
    return min(max((k - where.above) / (where.level + 1), 0.0), 1.0)


def reciprocal_rank(where: RankCounts) -> float:
    """The expected 1 / rank."""
    return sum(1 / (where.above + 1 + i) for i in range(where.level + 1)) / (where.level + 1)


def recall_measure(k: int) -> Metric:
    """recall@k as a metric over groups."""
    if k < 1:
        raise DataError(f"k must be at least 1, got {k}. Use 1 or 5.")
    return Metric(f"recall@{k}|ties:expected", _statistics(lambda where: recall_at_k(where, k)), mean_score)


def _statistics(value: Callable[[RankCounts], float]) -> Callable[..., np.ndarray]:
    def statistics(questions: Sequence[object], groups: Sequence[_Group]) -> np.ndarray:
        if len(questions) != len(groups):
            raise DataError(
                f"The number of groups must be equal, got {len(questions)} of questions and {len(groups)} of "
                f"predictions. Match them."
            )
        if not groups:
            raise DataError("A ranking needs at least one question, got none. Pass a question.")
        return np.array([(sum(value(where) for where in group), len(group)) for group in groups], np.float64)

    return statistics


RECIPROCAL_RANK = Metric("mrr|ties:expected", _statistics(reciprocal_rank), mean_score)
"""The mean reciprocal rank."""
