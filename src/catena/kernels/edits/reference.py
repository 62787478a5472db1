"""Reference implementation of sums over edits."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.alignment import reference as alignment
from catena.numerics import NEG_INF, log_sum_exp, safe_log


def log_sum_reference(
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
    s = targets.shape[1]
    t = substitute.shape[1]
    v = substitute.shape[3]
    real = torch.arange(s, device=targets.device) < target_lengths[:, None]
    symbols = torch.where(real, targets, 0)
    before = torch.nn.functional.pad(symbols + 1, (1, 0))  # before[r, j]: the symbol that the j-th one follows
    cell = (before[:, :-1] * v + symbols)[:, None]
    last = before.gather(1, target_lengths[:, None])
    total = alignment.log_partition_reference(
        substitute.flatten(2).gather(2, cell.expand(-1, t, -1)),
        insert.flatten(2).gather(2, cell.expand(-1, t + 1, -1)),
        delete.gather(2, before[:, None].expand(-1, t, -1)),
        lengths,
        target_lengths,
    )
    return total + end.gather(1, last)[:, 0]
