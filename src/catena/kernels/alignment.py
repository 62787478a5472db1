"""Sums over alignments on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis: ``substitutions`` are ``[b, s, t]``, ``insertions`` ``[b, s + 1, t]`` or
``[b, 1, t]``, ``deletions`` ``[b, s, t + 1]`` or ``[b, s, 1]``. All is computed in float64, whatever the dtype. Kept
for the backward pass: the marginals, as many numbers as there are scores.

The loops are in :mod:`catena.kernels.alignment_loops`. The second derivative is taken through
:func:`plain_log_partition`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from catena.kernels.alignment_loops import sum_rows
from catena.kernels.ops import differentiable, fold_vmap, keep_all, keep_inputs, needs_grad, torch_operator
from catena.kernels.second_derivative import second_derivative
from catena.kernels.threads import in_row_blocks
from catena.numerics import NEG_INF, log_sum_exp

WORK = 10
"""What a point of the grid costs, in multiplications."""


def log_partition(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """log Z of every row."""
    arguments = (substitutions, insertions, deletions, n_source, n_target)
    if needs_grad(*arguments):
        return _sum_both_ways(*arguments)[0]
    return _sum_one_way(*arguments)


def log_partition_and_marginals(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> tuple[Tensor, ...]:
    """log Z of every row, and the probability of every substitution, insertion and deletion."""
    arguments = (substitutions, insertions, deletions, n_source, n_target)
    log_z, *marginals = _sum_both_ways(*arguments)
    if not needs_grad(*arguments):
        return log_z, *marginals
    return log_z, *_slopes(torch.ones_like(log_z), *arguments, *(x.detach() for x in marginals))


def plain_log_partition(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp over diagonals; differentiable any number of times."""
    b, s, t = substitutions.shape
    paired = by_diagonal(substitutions)
    put, dropped = by_diagonal(insertions.expand(b, s + 1, t)), by_diagonal(deletions.expand(b, s, t + 1))
    never = substitutions.new_full((b, 1), NEG_INF)
    before = alpha = torch.cat((torch.zeros_like(never), never.expand(b, s)), dim=1)
    total = substitutions.new_zeros(b)
    for d in range(1, s + t + 1):
        terms = [alpha + put[:, :, d - 1], torch.cat((never, alpha[:, :-1] + dropped[:, :, d - 1]), dim=1)]
        if d > 1:
            terms.append(torch.cat((never, before[:, :-1] + paired[:, :, d - 2]), dim=1))
        before, alpha = alpha, log_sum_exp(torch.stack(terms), dim=0)
        here = alpha.gather(1, n_source[:, None])[:, 0]
        total = torch.where(n_source + n_target == d, here, total)
    return total


def by_diagonal(x: Tensor) -> Tensor:
    """``[:, i, d]`` is ``x[:, i, d - i]``, and -inf where that lies outside."""
    b, m, n = x.shape
    wide = torch.cat((x, x.new_full((b, m, m), NEG_INF)), dim=2).flatten(1)
    return wide[:, : m * (m + n - 1)].unflatten(1, (m, m + n - 1))


# --- operators ----------------------------------------------------------------------------------------------


def ready(*arguments: Tensor) -> tuple[Any, ...]:
    """Contiguous arrays, and lengths that fit."""
    substitutions, insertions, deletions, n_source, n_target = (x.detach() for x in arguments)
    n_source, n_target = n_source.clamp(0, substitutions.shape[1]), n_target.clamp(0, substitutions.shape[2])
    return tuple(x.contiguous().numpy() for x in (substitutions, insertions, deletions, n_source, n_target))


def _summed(both_ways: bool, *arguments: Tensor) -> tuple[Tensor, ...]:
    b, s, t = arguments[0].shape
    log_z = torch.empty(b, dtype=torch.float64)
    marginals = [torch.zeros(x.shape if both_ways else (1, 1, 1), dtype=x.dtype) for x in arguments[:3]]
    arrays, results = ready(*arguments), [x.numpy() for x in (log_z, *marginals)]
    in_row_blocks(lambda low, high: sum_rows(*arrays, low, high, both_ways, *results), b, WORK * b * s * t)
    return log_z.to(arguments[0].dtype), *marginals


@torch_operator("alignment_sum_one_way")
def _one_way(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    return _summed(False, substitutions, insertions, deletions, n_source, n_target)[0]


@torch_operator("alignment_sum_both_ways")
def _both_ways(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    log_z, paired, put, dropped = _summed(True, substitutions, insertions, deletions, n_source, n_target)
    return log_z, paired, put, dropped


@torch_operator("alignment_slopes")
def _slopes_op(
    scale: Tensor,
    substitutions: Tensor,
    insertions: Tensor,
    deletions: Tensor,
    n_source: Tensor,
    n_target: Tensor,
    paired: Tensor,
    put: Tensor,
    dropped: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    each = scale[:, None, None]
    return each * paired, each * put, each * dropped


@_one_way.register_fake
def _(substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor) -> Tensor:
    return substitutions.new_empty(substitutions.shape[0])


@_both_ways.register_fake
def _(substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor) -> Any:
    scores = (substitutions, insertions, deletions)
    return substitutions.new_empty(substitutions.shape[0]), *(x.new_empty(x.shape) for x in scores)


@_slopes_op.register_fake
def _(scale: Tensor, *inputs: Tensor) -> Any:
    return tuple(x.new_empty(x.shape) for x in inputs[:3])


# --- derivatives --------------------------------------------------------------------------------------------


def derivatives(plain: Callable[..., Tensor], one_way: Any, both_ways: Any, slopes_op: Any) -> tuple[Any, Any, Any]:
    """Three operators over three scores and two lengths, with their vmap rules and derivatives.

    Args:
        plain: log Z by torch alone, through which the second derivative is taken.
        one_way: gives log Z.
        both_ways: gives log Z and the marginals of the three scores.
        slopes_op: multiplies the marginals, its last three arguments, by the first.
    """

    def back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        return *gradients(grad, *inputs, *sum_both_ways(*inputs)[1:]), None, None

    def back_both_ways(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        return *gradients(grad, *ctx.saved_tensors), None, None

    def back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scale, *scores = ctx.saved_tensors[:4]
        lengths = ctx.saved_tensors[4:6]
        by_inputs = second_derivative(lambda *x: plain(*x, *lengths), scale, scores, grads)
        return *by_inputs, *(None for _ in range(5))

    for op in (one_way, both_ways, slopes_op):
        fold_vmap(op)
    sum_one_way = differentiable(one_way, keep_inputs, back_one_way)
    sum_both_ways = differentiable(both_ways, keep_all, back_both_ways)
    gradients = differentiable(slopes_op, keep_inputs, back_slopes, is_gradient=True)
    return sum_one_way, sum_both_ways, gradients


_sum_one_way, _sum_both_ways, _slopes = derivatives(plain_log_partition, _one_way, _both_ways, _slopes_op)
