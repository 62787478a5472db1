r"""How good predicted probabilities are: top-k accuracy, log loss, Brier score.

``ids[i]`` is the right label of example i, and ``rows[i, j]`` its score or probability of label j.
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
"""How far probabilities may be from summing to one; half precision needs it."""


def top_k_accuracy(ids: IdSequence, scores: Rows, k: int) -> MetricValue:
    """The share of examples whose label is among the k with the highest scores. Signature
    ``accuracy|top:5|n=…``.

    Of equal scores the label with the lower id comes first, so that with k = 1 it is the accuracy of argmax.
    """
    right, rows = as_ids_and_rows("top-k accuracy", ids, scores)
    if k < 1:
        raise ValueError(f"k must be at least 1, and is {k}")
    own = rows[np.arange(len(rows)), right][:, None]
    before = (rows > own) | ((rows == own) & (np.arange(rows.shape[1]) < right[:, None]))
    return MetricValue(float((before.sum(1) < k).mean()), signature("accuracy", len(rows), {"top": k}))


def log_loss(ids: IdSequence, probabilities: Rows) -> MetricValue:
    """The mean of -log p(right label), in nats. Signature ``log-loss|unit:nats|n=…``.

    A right label with probability 0 makes it infinite; nothing is clipped.
    """
    right, rows = as_ids_and_rows("log loss", ids, probabilities)
    check_probabilities(rows)
    with np.errstate(divide="ignore"):
        losses = 0.0 - np.log(rows[np.arange(len(rows)), right])  # of certainty 0, not -0
    return MetricValue(float(losses.mean()), signature("log-loss", len(rows), {"unit": "nats"}))


def brier_score(ids: IdSequence, probabilities: Rows) -> MetricValue:
    """The mean squared distance to the right answer, summed over labels, from 0 to 2. Signature
    ``brier|n=…``.

    Brier (1950) as he wrote it; with two labels it is twice the form that looks at one of them.
    """
    right, rows = as_ids_and_rows("the Brier score", ids, probabilities)
    check_probabilities(rows)
    answers = np.zeros_like(rows)
    answers[np.arange(len(rows)), right] = 1
    return MetricValue(float(((rows - answers) ** 2).sum(1).mean()), signature("brier", len(rows)))


def as_ids_and_rows(name: str, ids: IdSequence, rows: Rows) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n k"]]:
    """Ids as integers and rows in double precision, once they fit together; ``name`` is for the error."""
    right, table = np.asarray(ids), np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or right.shape != table.shape[:1]:
        raise DataError(
            f"{name} needs one id and one row of numbers for each example, "
            f"but the shape of the ids is {right.shape} and of the rows {table.shape}"
        )
    if len(table) == 0:
        raise DataError(f"{name} of no examples is not defined: give at least one id and its row")
    if not np.issubdtype(right.dtype, np.integer):
        raise DataError(f"{name} needs whole numbers as ids, but they are of type {right.dtype}")
    if ((right < 0) | (right >= table.shape[1])).any():
        i = int(np.flatnonzero((right < 0) | (right >= table.shape[1]))[0])
        raise DataError(f"{name} needs ids from 0 to {table.shape[1] - 1}, but example {i} has {right[i]}")
    if np.isnan(table).any():
        raise DataError(f"{name} needs numbers, but the row of example {int(np.isnan(table).any(1).argmax())} has nan")
    return right.astype(np.int64), table


def check_probabilities(rows: Float[np.ndarray, "n k"]) -> None:
    """Refuse rows that are no distributions, as logits are not."""
    wrong = (rows < 0).any(1) | (np.abs(rows.sum(1) - 1) > _SUM_TOLERANCE)
    if wrong.any():
        i = int(wrong.argmax())
        raise DataError(
            f"probabilities must be at least 0 and sum to 1, but those of example {i} sum to "
            f"{rows[i].sum():.6g}, the least being {rows[i].min():.6g}: give the softmax, not the logits"
        )
