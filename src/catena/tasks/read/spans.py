r"""Search of the best answer spans over all windows of a question, and the threshold of no answer.

Search of the best answer spans over the windows of all texts of a question, with one softmax over all of them.

.. math::  p(w, i, j) = \frac{\exp(s_{wi} + e_{wj} + r_w)}{Z}, \qquad i \le j < i + L

where s and e are the logits of start and end in window w, and r is a bias of the window, such as the weighted score of
its paragraph in retrieval. Z sums over all spans of all windows and, for models that know it, no answer. So
probabilities of different windows are comparable, which those of a softmax for each window are not. Time and memory
O(T L) for T tokens in all windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from catena.errors import ConfigError, DataError
from catena.numerics import NEG_INF, log_sum_exp


class SpanScore(NamedTuple):
    """A span of tokens of one window and its score."""

    window: int
    first: int
    """The position of the first token in the window."""
    last: int
    """The position of the last token in the window."""
    score: float


def score_spans(start: Float[Tensor, "w t"], end: Float[Tensor, "w t"], max_answer: int) -> Float[Tensor, "w t n"]:
    """``scores[w, i, l]`` is the score of the span from i to i + l of window w; -inf if it leaves the window.

    Args:
        start: the logits of the first position, -inf at padding.
        end: the logits of the last position, -inf at padding.
        max_answer: the maximum number of tokens of a span.
    """
    if max_answer < 1:
        raise ConfigError(f"max_answer must be at least 1, got {max_answer}. Use 17.")
    ends = F.pad(end, (0, max_answer - 1), value=NEG_INF).unfold(1, max_answer, 1)  # w t n
    return start[..., None] + ends


def best_spans(
    start: Float[Tensor, "w t"], end: Float[Tensor, "w t"], max_answer: int
) -> tuple[Int[Tensor, " w"], Int[Tensor, " w"], Float[Tensor, " w"]]:
    """First position, last position and score of the best span of each window; of equal spans, the first counts."""
    return argmax_spans(score_spans(start, end, max_answer))


def argmax_spans(
    scores: Float[Tensor, "w t n"],
) -> tuple[Int[Tensor, " w"], Int[Tensor, " w"], Float[Tensor, " w"]]:
    """First position, last position and score of the best span of each window, by the best end of each start.

    Args:
        scores: the scores of :func:`score_spans`.
    """
    per_start, offset = scores.max(-1)
    score, first = per_start.max(-1)
    last = first + offset.gather(1, first[:, None])[:, 0]
    return first, last, score


def owned_spans(
    low: Int[Tensor, " w"], high: Int[Tensor, " w"], first: Int[Tensor, " w"], t: int, max_answer: int
) -> Bool[Tensor, "w t n"]:
    """``owned[w, i, l]`` is True if the span from i to i + l belongs to window w (see :class:`TokenWindow`).

    Args:
        low: the limit of each window for the sum of both positions in the text.
        high: the limit above it.
        first: the position of each window in its text.
        t: the number of positions of a window.
        max_answer: the maximum number of tokens of a span.
    """
    i = torch.arange(t, device=low.device)[:, None]
    both = 2 * i + torch.arange(max_answer, device=low.device) + 2 * first[:, None, None]
    return (low[:, None, None] <= both) & (both < high[:, None, None])


class SpanDistribution:
    """The distribution over all spans of the windows of a question.

    Args:
        scores: ``scores[w, i, l]`` as in :func:`score_spans`, -inf for spans that belong to another window.
        bias: a score that is added to all spans of a window; 0 if omitted.
        no_answer: the score of no answer; -inf if every question has one.
    """

    def __init__(
        self,
        scores: Float[Tensor, "w t n"],
        bias: Float[Tensor, " w"] | None = None,
        no_answer: float = NEG_INF,
    ) -> None:
        self.scores = scores if bias is None else scores + bias[:, None, None]
        self.no_answer = no_answer
        self._total = float(log_sum_exp(self.scores.flatten().double(), dim=0))
        self.log_partition = float(np.logaddexp(self._total, no_answer))

    def set_no_answer_odds(self, log_odds: float) -> None:
        """Let no answer have these log-odds; the spans keep their relative probabilities."""
        self.no_answer = self._total + log_odds
        self.log_partition = float(np.logaddexp(self._total, self.no_answer))

    def top(self, n: int) -> list[SpanScore]:
        """The ``n`` best spans in descending order of score, fewer if there are not as many."""
        _, t, length = self.scores.shape
        values, places = self.scores.flatten().topk(min(n, self.scores.numel()))
        found = []
        for value, at in zip(values.tolist(), places.tolist(), strict=True):
            if value == NEG_INF:
                break
            window, rest = divmod(at, t * length)
            first, more = divmod(rest, length)
            found.append(SpanScore(window, first, first + more, value))
        return found

    def probability(self, score: float) -> float:
        """The probability of a span or of no answer with this score."""
        return math.exp(score - self.log_partition) if score > NEG_INF else 0.0

    @property
    def no_answer_probability(self) -> float:
        """The probability of no answer."""
        return self.probability(self.no_answer)


# --- no answer --------------------------------------------------------------------------------------------------------


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
