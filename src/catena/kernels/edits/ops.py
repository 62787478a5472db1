"""Torch operators for sums over edits: over all targets of each source, or over all edits to one target.

Rows of the batch are on the first axis: ``substitute`` ``[b, t, v + 1, v]``, ``insert`` ``[b, t + 1, v + 1, v]``,
``delete`` ``[b, t, v + 1]``, ``end`` ``[b, v + 1]``; ``targets`` ``[b, s]`` and their lengths, or None for all
targets. All computation is in float64 on the CPU. The gradients, one for each score, are saved for the backward pass.

The loops are in :mod:`catena.kernels.edits.cpu`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.kernels.common.ops import as_int64_array
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.edits.cpu import paths, totals
from catena.kernels.edits.reference import log_sum_reference


def log_sum(
    substitute: Tensor,
    insert: Tensor,
    delete: Tensor,
    end: Tensor,
    lengths: Tensor,
    targets: Tensor | None = None,
    target_lengths: Tensor | None = None,
) -> Tensor:
    """The log of the summed weights of each row: nan where a score that is read is nan or +inf.

    Raises :class:`DivergentSumError` where the sum over all targets is infinite.
    """
    return SUMS.log_partition(substitute, insert, delete, end, lengths, targets, target_lengths)


def diverges(row: int) -> DivergentSumError:
    """The error for a source whose insertions weigh too much."""
    return DivergentSumError(
        f"The sum over all targets of source {row} diverges, because what may be inserted at one position weighs 1 or "
        "more. Lower the scores of insertions."
    )


def _sum(keep: bool, *arguments: Any) -> tuple[Tensor, ...]:
    substitute, targets = arguments[0], arguments[5]
    scores = [x.detach().cpu().double().contiguous().numpy() for x in arguments[:4]]
    gradients = [np.zeros_like(x) for x in scores]
    found = np.empty(len(scores[0]))
    n, y, m = (None if x is None else as_int64_array(x) for x in arguments[4:])
    divergent: list[int] = []

    def run(low: int, high: int) -> None:
        if y is None:
            divergent.append(totals(*scores, n, low, high, found, *gradients))
        else:
            paths(*scores, n, y, m, low, high, found, *gradients)

    in_row_blocks(run, len(found), (20 if targets is None else 2) * substitute.numel())
    for row in sorted(row for row in divergent if row >= 0):
        raise diverges(row)
    return tuple(torch.from_numpy(x).to(substitute) for x in (found, *gradients))


def _float64_reference(
    substitute: Tensor, insert: Tensor, delete: Tensor, end: Tensor, lengths: Tensor, targets: Tensor | None,
    target_lengths: Tensor | None,
) -> Tensor:  # fmt: skip
    wide = (substitute.double(), insert.double(), delete.double(), end.double())
    return log_sum_reference(*wide, lengths, targets, target_lengths).to(substitute.dtype)


SUMS = RowSums(
    "edit",
    _float64_reference,
    4,
    sum_rows=_sum,
    kept=lambda *arguments: tuple(x.new_empty(x.shape) for x in arguments[:4]),
    n_kept=4,
)
