"""Torch operators of loops that sum over dependency trees: log Z, arc probabilities and derivatives.

Rows of the batch are on the first axis: ``arcs[b, h, m]``, node 0 is the root; ``lengths[b]`` words. Padding and
impossible arcs (``h = m`` or ``m = 0``) are not read. Loops compute in float64 for every dtype of the scores. The
second derivative is computed with the reference program.

The scores and, with ``keep``, the arc probabilities are saved for the backward pass. Without them the backward pass
sums again. Labels are summed out before (:func:`sum_labels`), and nothing of their number is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from catena.kernels.forward_mode import saved_without_tangents
from catena.kernels.ops import differentiable, fold_vmap, keep_all, keep_inputs, needs_grad, torch_operator
from catena.kernels.second_derivative import second_derivative
from catena.kernels.threads import in_row_blocks
from catena.numerics import NEG_INF, log_sum_exp, masked_softmax, without_nan

_Loop = Callable[..., None]
_Plain = Callable[[Tensor, Tensor, bool], Tensor]
_LogPartition = Callable[[Tensor, Tensor, bool], Tensor]
_Both = Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor]]


def arc_sum(name: str, loops: tuple[_Loop, _Loop], plain: _Plain, keep: bool) -> tuple[_LogPartition, _Both]:
    """The functions ``log_partition`` and ``log_partition_and_marginals`` of rows of trees.

    The first loop writes log Z and, if requested, the probabilities of the arcs of the rows ``low`` to ``high``,
    and where it could not do so exactly; the second does these rows again, at any range. ``plain`` computes
    log Z by torch. With ``keep`` the probabilities are computed together with log Z and kept for its gradient.
    """
    one_way, both_ways, gradients = _operators(name, loops)
    _register_shapes(one_way, both_ways, gradients)

    def back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (arcs, lengths), (single_root,) = ctx.saved_tensors, ctx.constants.values()
        chances = sum_both_ways(arcs, lengths, single_root)[1]
        return take_slopes(grad, arcs, lengths, chances, single_root), None, None

    def back_both_ways(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None
        return take_slopes(grad, *ctx.saved_tensors, *ctx.constants.values()), None, None

    def back_slopes(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (scale, arcs, lengths, _), (single_root,) = ctx.saved_tensors, ctx.constants.values()
        by_inputs = second_derivative(lambda a: plain(a, lengths, single_root), scale, [arcs], [grad])
        return *by_inputs, None, None, None

    sum_one_way = differentiable(one_way, keep_inputs, back_one_way)
    sum_both_ways = differentiable(both_ways, keep_all, back_both_ways)
    take_slopes = differentiable(gradients, keep_inputs, back_slopes, is_gradient=True)

    def log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
        if keep and needs_grad(arcs):
            return sum_both_ways(arcs, lengths, single_root)[0]
        return sum_one_way(arcs, lengths, single_root)

    def log_partition_and_marginals(arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
        log_z, chances = sum_both_ways(arcs, lengths, single_root)
        if not needs_grad(arcs):
            return log_z, chances
        return log_z, take_slopes(torch.ones_like(log_z), arcs, lengths, chances.detach(), single_root)

    return log_partition, log_partition_and_marginals


def sum_labels(labels: Tensor) -> Tensor:
    """log Σ exp over the last axis, -inf where all are; only ``labels`` themselves are kept for the backward pass."""
    if torch.compiler.is_compiling():  # it does not trace functions that have a jvp
        return log_sum_exp(labels, -1)
    summed: Tensor = _LabelSum.apply(labels)
    return summed


class _LabelSum(torch.autograd.Function):
    @staticmethod
    def forward(labels: Tensor) -> Tensor:
        return log_sum_exp(labels, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def vmap(info: Any, dims: tuple[int], labels: Tensor) -> tuple[Tensor, int]:
        return _LabelSum.apply(labels.movedim(dims[0], 0)), 0

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        with saved_without_tangents(ctx) as (labels,):
            return (masked_softmax(labels) * tangent).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # A label of nan on an arc that is not read must not reach the gradient; on one that is, grad is nan itself.
        return grad[..., None] * masked_softmax(without_nan(*ctx.saved_tensors))


def possible_arcs(arcs: Tensor, lengths: Tensor) -> Tensor:
    """Scores with -inf wherever there is no arc."""
    nodes = torch.arange(arcs.shape[-1], device=arcs.device)
    real = nodes <= lengths[:, None]
    arc = real[:, :, None] & real[:, None, :] & (nodes[:, None] != nodes) & (nodes > 0)
    return torch.where(arc, arcs, NEG_INF)


def rows_without_numbers(arcs: Tensor, lengths: Tensor) -> Tensor | None:
    """Where a score that is read is nan or +inf, with which the loops would never end or read beyond their tables.

    None where there is no such score anywhere: then all was looked at once.
    """
    if arcs.numel() == 0 or float(arcs.amax()) < torch.inf:
        return None
    return ~(possible_arcs(arcs, lengths).flatten(1).amax(1) < torch.inf)


def _operators(name: str, loops: tuple[_Loop, _Loop]) -> tuple[Any, Any, Any]:
    def run(arcs: Tensor, lengths: Tensor, single_root: bool, both_ways: bool) -> tuple[Tensor, Tensor]:
        b, n, _ = arcs.shape
        wrong = rows_without_numbers(arcs, lengths)
        arcs = arcs if wrong is None else torch.where(wrong[:, None, None], NEG_INF, arcs)
        log_z, exact = torch.empty(b, dtype=torch.float64), torch.empty(b, dtype=torch.bool)
        chances = torch.zeros(arcs.shape if both_ways else (1, 1, 1), dtype=arcs.dtype)
        arrays = (arcs.detach().contiguous().numpy(), lengths.clamp(0, n - 1).contiguous().numpy(), single_root)
        results = (both_ways, log_z.numpy(), chances.numpy(), exact.numpy())
        for loop in loops:
            in_row_blocks(partial(_call, loop, arrays, results), b, b * n**3 * (2 if both_ways else 1))
            if exact.all():
                break
        if wrong is not None:
            log_z[wrong] = torch.nan
            chances[wrong if both_ways else slice(0)] = torch.nan
        return log_z.to(arcs.dtype), chances

    @torch_operator(f"{name}_one_way")
    def one_way(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
        return run(arcs, lengths, single_root, both_ways=False)[0]

    @torch_operator(f"{name}_both_ways")
    def both_ways(arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
        return run(arcs, lengths, single_root, both_ways=True)

    @torch_operator(f"{name}_slopes")
    def gradients(scale: Tensor, arcs: Tensor, lengths: Tensor, chances: Tensor, single_root: bool) -> Tensor:
        return chances * scale[:, None, None]

    return one_way, both_ways, gradients


def _call(loop: _Loop, arrays: tuple[Any, ...], results: tuple[Any, ...], low: int, high: int) -> None:
    loop(*arrays, low, high, *results)


def _register_shapes(one_way: Any, both_ways: Any, gradients: Any) -> None:
    def alike(x: Tensor) -> Tensor:
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    one_way.register_fake(lambda arcs, lengths, single_root: arcs.new_empty(arcs.shape[0]))
    both_ways.register_fake(lambda arcs, lengths, single_root: (arcs.new_empty(arcs.shape[0]), alike(arcs)))
    gradients.register_fake(lambda scale, arcs, lengths, chances, single_root: alike(arcs))
    for op in (one_way, both_ways, gradients):
        fold_vmap(op)
