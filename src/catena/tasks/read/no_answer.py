"""The threshold of no answer, fitted on development questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from catena.errors import DataError

_Values = Sequence[float] | np.ndarray


class FittedThreshold(NamedTuple):
    """A threshold of the margin of no answer, and the mean score with it."""

    threshold: float
    score: float


def fit_no_answer_threshold(margins: _Values, answer_scores: _Values, no_answer_scores: _Values) -> FittedThreshold:
    """The threshold with the highest mean score: there is no answer where the margin exceeds it.

    The thresholds between all neighboring margins are compared, in time O(n log n). Of equal ones, the threshold
    nearest to 0 counts.

    Args:
        margins: ``margins[i]`` is the score of no answer minus the score of the best span of question i.
        answer_scores: the metric of the best span, such as its F1.
        no_answer_scores: the metric of no answer: 1 if the question has none, otherwise 0.
    """
    if not len(margins):
        raise DataError("The threshold of no answer needs at least one question, got none. Pass dev questions.")
    order = np.argsort(np.asarray(margins, np.float64), kind="stable")
    sorted_margins = np.asarray(margins, np.float64)[order]
    answered = np.concatenate(([0.0], np.cumsum(np.asarray(answer_scores, np.float64)[order])))
    left = np.concatenate((np.cumsum(np.asarray(no_answer_scores, np.float64)[order][::-1])[::-1], [0.0]))
    totals = answered + left  # totals[k]: the k smallest margins have an answer
    middles = (sorted_margins[:-1] + sorted_margins[1:]) / 2
    thresholds = np.concatenate(([sorted_margins[0] - 1], middles, [sorted_margins[-1] + 1]))
    possible = np.concatenate(([True], sorted_margins[:-1] < sorted_margins[1:], [True]))
    best = np.flatnonzero(possible & (totals >= totals[possible].max() - 1e-9))
    nearest = best[np.argmin(np.abs(thresholds[best]))]
    return FittedThreshold(float(thresholds[nearest]), float(totals[nearest] / len(order)))
