"""Sums over one-to-one alignments on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis: ``scores`` are ``[b, s, t]``, ``source_gaps`` ``[b, s]``, ``target_gaps``
``[b, t]``. All is computed in float64, whatever the dtype. Saved for the backward pass: the marginals, as many numbers
as there are scores.

The loops are in :mod:`catena.kernels.alignment_one_to_one_loops`. The second derivative is taken through
:func:`plain_log_partition`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.alignment import by_diagonal, derivatives, ready
from catena.kernels.alignment_one_to_one_loops import sum_rows
from catena.kernels.ops import needs_grad, torch_operator
from catena.kernels.threads import in_row_blocks
from catena.numerics import NEG_INF, log_sum_exp

WORK = 10
"""What a point of the grid costs, in multiplications."""


def log_partition(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """log Z of every row."""
    arguments = (scores, source_gaps, target_gaps, n_source, n_target)
    if needs_grad(*arguments):
        return _sum_both_ways(*arguments)[0]
    return _sum_one_way(*arguments)


def log_partition_and_marginals(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> tuple[Tensor, ...]:
    """log Z of every row, the probability of every pair, and that of every position to be left over."""
    arguments = (scores, source_gaps, target_gaps, n_source, n_target)
    log_z, *marginals = _sum_both_ways(*arguments)
    if not needs_grad(*arguments):
        return log_z, *marginals
    return log_z, *_slopes(torch.ones_like(log_z), *arguments, *(x.detach() for x in marginals))


def plain_log_partition(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp over diagonals; differentiable any number of times."""
    b, s, t = scores.shape
    pairs, puts = by_diagonal(scores), by_diagonal(target_gaps[:, None].expand(b, s + 1, t))
    never = scores.new_full((b, 1), NEG_INF)
    before = ahead = alpha = torch.cat((torch.zeros_like(never), never.expand(b, s)), dim=1)
    total = scores.new_zeros(b)
    for d in range(1, s + t + 1):
        ways = [ahead + puts[:, :, d - 1]]
        if d > 1:
            ways.append(torch.cat((never, before[:, :-1] + pairs[:, :, d - 2]), dim=1))
        ahead = log_sum_exp(torch.stack(ways), dim=0)
        dropped = torch.cat((never, alpha[:, :-1] + source_gaps), dim=1)
        before, alpha = alpha, log_sum_exp(torch.stack((ahead, dropped)), dim=0)
        here = alpha.gather(1, n_source[:, None])[:, 0]
        total = torch.where(n_source + n_target == d, here, total)
    return total


# --- operators ----------------------------------------------------------------------------------------------


def _summed(both_ways: bool, *arguments: Tensor) -> tuple[Tensor, ...]:
    b, s, t = arguments[0].shape
    log_z = torch.empty(b, dtype=torch.float64)
    marginals = [torch.zeros(x.shape if both_ways else (1,) * x.dim(), dtype=x.dtype) for x in arguments[:3]]
    arrays, results = ready(*arguments), [x.numpy() for x in (log_z, *marginals)]
    in_row_blocks(lambda low, high: sum_rows(*arrays, low, high, both_ways, *results), b, WORK * b * s * t)
    return log_z.to(arguments[0].dtype), *marginals


@torch_operator("one_to_one_sum_one_way")
def _one_way(scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor) -> Tensor:
    return _summed(False, scores, source_gaps, target_gaps, n_source, n_target)[0]


@torch_operator("one_to_one_sum_both_ways")
def _both_ways(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    log_z, paired, source, target = _summed(True, scores, source_gaps, target_gaps, n_source, n_target)
    return log_z, paired, source, target


@torch_operator("one_to_one_slopes")
def _slopes_op(
    scale: Tensor,
    scores: Tensor,
    source_gaps: Tensor,
    target_gaps: Tensor,
    n_source: Tensor,
    n_target: Tensor,
    paired: Tensor,
    source: Tensor,
    target: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return scale[:, None, None] * paired, scale[:, None] * source, scale[:, None] * target


@_one_way.register_fake
def _(scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor) -> Tensor:
    return scores.new_empty(scores.shape[0])


@_both_ways.register_fake
def _(scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor) -> Any:
    return scores.new_empty(scores.shape[0]), *(x.new_empty(x.shape) for x in (scores, source_gaps, target_gaps))


@_slopes_op.register_fake
def _(scale: Tensor, *inputs: Tensor) -> Any:
    return tuple(x.new_empty(x.shape) for x in inputs[:3])


_sum_one_way, _sum_both_ways, _slopes = derivatives(plain_log_partition, _one_way, _both_ways, _slopes_op)
