r"""Metrics of predicted probabilities: top-k accuracy, log loss, Brier score.

``ids[i]`` is the gold label of example i, and ``rows[i, j]`` its score or probability of label j.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError
from catena.metrics.measure import MetricValue, signature

IdSequence = Sequence[int] | np.ndarray
Rows = Sequence[Sequence[float]] | np.ndarray

_SUM_TOLERANCE = 1e-3
"""Tolerance for the sum of probabilities, which half precision needs."""


def top_k_accuracy(ids: IdSequence, scores: Rows, k: int) -> MetricValue:
    """The fraction of examples whose label is among the k highest scores. Signature ``accuracy|top:5|n=…``.

    Ties are broken by the lower id, so that with k = 1 it is the accuracy of argmax.
    """
    right, rows = as_ids_and_rows("top-k accuracy", ids, scores)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}. Use 5.")
    own = rows[np.arange(len(rows)), right][:, None]
    before = (rows > own) | ((rows == own) & (np.arange(rows.shape[1]) < right[:, None]))
    return MetricValue(float((before.sum(1) < k).mean()), signature("accuracy", len(rows), {"top": k}))


def log_loss(ids: IdSequence, probabilities: Rows) -> MetricValue:
    """The mean of -log p(gold label), in nats. Signature ``log-loss|unit:nats|n=…``.

    A gold label with probability 0 makes it infinite; nothing is clipped.

    Args:
        ids: ``ids[i]`` is the index of the gold label of example i.
        probabilities: ``probabilities[i][k]`` is the probability of label k.
    """
    right, rows = as_ids_and_rows("log loss", ids, probabilities)
    check_probabilities(rows)
    with np.errstate(divide="ignore"):
        losses = 0.0 - np.log(rows[np.arange(len(rows)), right])  # 0 for certainty, not -0
    return MetricValue(float(losses.mean()), signature("log-loss", len(rows), {"unit": "nats"}))


def brier_score(ids: IdSequence, probabilities: Rows) -> MetricValue:
    """The mean squared distance to the one-hot gold label, from 0 to 2. Signature ``brier|n=…``.

    This is the original form of Brier (1950). With two labels it is twice the form for one of them.

    Args:
        ids: ``ids[i]`` is the index of the gold label of example i.
        probabilities: ``probabilities[i][k]`` is the probability of label k.
    """
    right, rows = as_ids_and_rows("the Brier score", ids, probabilities)
    check_probabilities(rows)
    answers = np.zeros_like(rows)
    answers[np.arange(len(rows)), right] = 1
    return MetricValue(float(((rows - answers) ** 2).sum(1).mean()), signature("brier", len(rows)))


def as_ids_and_rows(name: str, ids: IdSequence, rows: Rows) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n k"]]:
    """Ids as integers and rows in double precision, checked against each other. ``name`` is used in errors."""
    right, table = np.asarray(ids), np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or right.shape != table.shape[:1]:
        raise DataError(
            f"{name} needs one id and one row of numbers for each example, got ids of shape {right.shape} and rows of "
            f"shape {table.shape}. Match them."
        )
    if len(table) == 0:
        raise DataError(f"{name} needs at least one example, got none. Pass an id and its row.")
    if not np.issubdtype(right.dtype, np.integer):
        raise DataError(f"{name} needs integers as ids, got {right.dtype}. Convert them.")
    if ((right < 0) | (right >= table.shape[1])).any():
        i = int(np.flatnonzero((right < 0) | (right >= table.shape[1]))[0])
        raise DataError(
            f"{name} needs ids from 0 to {table.shape[1] - 1}, got {right[i]} for example {i}. Check the ids."
        )
    if np.isnan(table).any():
        raise DataError(
            f"{name} needs numbers, got nan in the row of example {int(np.isnan(table).any(1).argmax())}. Remove the "
            f"example."
        )
    return right.astype(np.int64), table


def check_probabilities(rows: Float[np.ndarray, "n k"]) -> None:
    """Raise DataError for rows that are not distributions, such as logits."""
    wrong = (rows < 0).any(1) | (np.abs(rows.sum(1) - 1) > _SUM_TOLERANCE)
    if wrong.any():
        i = int(wrong.argmax())
        raise DataError(
            f"Probabilities must be at least 0 and sum to 1, got the sum {rows[i].sum():.6g} and the minimum "
            f"{rows[i].min():.6g} in example {i}. Pass the softmax, not the logits."
        )
