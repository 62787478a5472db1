"""Sums over edits as operators of torch: over all targets of each source, or over all ways to write one target.

Rows of the batch are on the first axis: ``substitute`` ``[b, t, v + 1, v]``, ``insert`` ``[b, t + 1, v + 1, v]``,
``delete`` ``[b, t, v + 1]``, ``end`` ``[b, v + 1]``; ``targets`` ``[b, s]`` and their lengths, or None for all
targets. All is computed in float64 on the CPU. Saved for the backward pass: the gradients, one for each score.

The loops are in :mod:`catena.kernels.edit_loops`. The second derivative is taken through :func:`plain_log_sum`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.kernels import alignment
from catena.kernels.edit_loops import paths, totals
from catena.kernels.ops import (
    as_int64_array,
    differentiable,
    fold_vmap,
    keep_all,
    keep_inputs,
    register_gradient_shapes,
    torch_operator,
)
from catena.kernels.second_derivative import second_derivative
from catena.kernels.threads import in_row_blocks
from catena.numerics import NEG_INF, log_sum_exp, safe_log


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
    found: Tensor = _sum(substitute, insert, delete, end, lengths, targets, target_lengths)[0]
    return found


def diverges(row: int) -> DivergentSumError:
    """The error for a source whose insertions weigh too much."""
    return DivergentSumError(
        f"The sum over all targets of source {row} diverges, because what may be inserted at one position weighs 1 or "
        "more. Lower the scores of insertions."
    )


def plain_log_sum(
    substitute: Tensor,
    insert: Tensor,
    delete: Tensor,
    end: Tensor,
    lengths: Tensor,
    targets: Tensor | None = None,
    target_lengths: Tensor | None = None,
) -> Tensor:
    """What the kernels compute, by operations of torch; differentiable any number of times."""
    if targets is None or target_lengths is None:
        return _plain_total(substitute, insert, delete, end, lengths)
    return _plain_paths(substitute, insert, delete, end, lengths, targets, target_lengths)


def _plain_total(substitute: Tensor, insert: Tensor, delete: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    t, v = substitute.shape[1], substitute.shape[3]
    unit = torch.eye(v, dtype=substitute.dtype, device=substitute.device)
    after = end  # after[r, p]: log-weight of all that may follow the symbol p
    for i in range(t, -1, -1):
        if i < t:
            written = log_sum_exp(substitute[:, i] + after[:, None, 1:], dim=2)
            moved = log_sum_exp(torch.stack((written, delete[:, i] + after)), dim=0)
            after = torch.where((i < lengths)[:, None], moved, end)
        inserted = torch.where((i <= lengths)[:, None, None], insert[:, i], NEG_INF).exp()
        top = after.amax(1, keepdim=True).detach()
        top = torch.where(top.isinf(), 0.0, top)
        weight = (after - top).exp()
        symbols = torch.linalg.solve(unit - inserted[:, 1:], weight[:, 1:])
        first = weight[:, :1] + (inserted[:, 0] * symbols).sum(1, keepdim=True)
        found = torch.cat((first, symbols), dim=1)
        after = safe_log(torch.where(found < 0, 0.0, found)) + top  # rounding may leave less than 0
    return after[:, 0]


def _plain_paths(
    substitute: Tensor, insert: Tensor, delete: Tensor, end: Tensor, lengths: Tensor, targets: Tensor,
    target_lengths: Tensor,
) -> Tensor:  # fmt: skip
    """With the target known, edits are alignments: the symbol written last depends on the column only."""
    s, t, v = targets.shape[1], substitute.shape[1], substitute.shape[3]
    real = torch.arange(s, device=targets.device) < target_lengths[:, None]
    symbols = torch.where(real, targets, 0)
    before = torch.nn.functional.pad(symbols + 1, (1, 0))  # before[r, j]: the symbol that the j-th one follows
    cell = (before[:, :-1] * v + symbols)[:, None]
    last = before.gather(1, target_lengths[:, None])
    total = alignment.plain_log_partition(
        substitute.flatten(2).gather(2, cell.expand(-1, t, -1)),
        insert.flatten(2).gather(2, cell.expand(-1, t + 1, -1)),
        delete.gather(2, before[:, None].expand(-1, t, -1)),
        lengths,
        target_lengths,
    )
    return total + end.gather(1, last)[:, 0]


# --- operators --------------------------------------------------------------------------------------------------------


@torch_operator("edit_sum")
def _sum_op(
    substitute: Tensor, insert: Tensor, delete: Tensor, end: Tensor, lengths: Tensor, targets: Tensor | None,
    target_lengths: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    scores = [x.detach().cpu().double().contiguous().numpy() for x in (substitute, insert, delete, end)]
    gradients = [np.zeros_like(x) for x in scores]
    found, n = np.empty(len(scores[0])), as_int64_array(lengths)
    y, m = (None if x is None else as_int64_array(x) for x in (targets, target_lengths))
    divergent: list[int] = []

    def run(low: int, high: int) -> None:
        if y is None:
            divergent.append(totals(*scores, n, low, high, found, *gradients))
        else:
            paths(*scores, n, y, m, low, high, found, *gradients)

    in_row_blocks(run, len(found), (20 if targets is None else 2) * substitute.numel())
    for row in sorted(row for row in divergent if row >= 0):
        raise diverges(row)
    log_z, d_substitute, d_insert, d_delete, d_end = (torch.from_numpy(x).to(substitute) for x in (found, *gradients))
    return log_z, d_substitute, d_insert, d_delete, d_end


@torch_operator("edit_gradients")
def _gradients_op(
    scale: Tensor, substitute: Tensor, insert: Tensor, delete: Tensor, end: Tensor, lengths: Tensor,
    targets: Tensor | None, target_lengths: Tensor | None, d_substitute: Tensor, d_insert: Tensor, d_delete: Tensor,
    d_end: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    given = (d_substitute, d_insert, d_delete, d_end)
    by_substitute, by_insert, by_delete, by_end = (x * scale.reshape(-1, *[1] * (x.dim() - 1)) for x in given)
    return by_substitute, by_insert, by_delete, by_end


@_sum_op.register_fake
def _(*arguments: Any) -> Any:
    scores = arguments[:4]
    return scores[0].new_empty(scores[0].shape[0]), *(x.new_empty(x.shape) for x in scores)


register_gradient_shapes(_gradients_op, 4)
for _op in (_sum_op, _gradients_op):
    fold_vmap(_op)


def _back_sum(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 7
    return *_gradients(grad, *ctx.saved_tensors), None, None, None


def _back_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, *scores = ctx.saved_tensors[:5]
    others = ctx.saved_tensors[5:8]

    def plain(*scores: Tensor) -> Tensor:
        wide = (x.double() for x in scores)
        return plain_log_sum(*wide, *others).to(scale.dtype)

    return *second_derivative(plain, scale, scores, grads), *(None for _ in range(7))


_sum = differentiable(_sum_op, keep_all, _back_sum)
_gradients = differentiable(_gradients_op, keep_inputs, _back_gradients, is_gradient=True)
