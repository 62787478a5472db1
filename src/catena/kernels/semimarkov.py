"""Sums over segmentations on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis: ``segments`` are ``[b, t, m, k]``. ``tables`` ``[g, k, k]``, ``start`` and
``end`` ``[g, k]`` are each shared by ``b / g`` consecutive rows. Saved for the backward pass: the marginals, and two
tensors of ``t × k`` numbers for each row.

The loops are in :mod:`catena.kernels.semimarkov_loops`; the second derivative is taken through
:func:`plain_log_partition`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from catena.kernels.ops import (
    differentiable,
    fold_vmap,
    keep_all,
    keep_inputs,
    needs_grad,
    register_gradient_shapes,
    torch_operator,
)
from catena.kernels.second_derivative import second_derivative
from catena.kernels.semimarkov_loops import expected_neighbors, sum_rows
from catena.kernels.threads import in_row_blocks
from catena.numerics import log_sum_exp


def log_partition(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    arguments = (segments, tables, start, end, lengths)
    return _sum_both_ways(*arguments)[0] if needs_grad(*arguments) else _sum_one_way(*arguments)


def marginals(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """The probability of every segment."""
    arguments = (segments, tables, start, end, lengths)
    log_z, *kept = _sum_both_ways(*arguments)
    if not needs_grad(*arguments):
        return kept[0]
    return _slopes(torch.ones_like(log_z), *arguments, *(x.detach() for x in kept))[0]


def plain_log_partition(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, m, _ = segments.shape
    each = b // tables.shape[0]
    tables, start, end = (x.repeat_interleave(each, 0) for x in (tables, start, end))
    entry = [start]
    result = segments.new_zeros(b)
    for j in range(1, t + 1):
        ways = [entry[i] + segments[:, i, j - i - 1] for i in range(max(0, j - m), j)]
        here = log_sum_exp(torch.stack(ways, dim=1), dim=1)
        result = torch.where(lengths == j, log_sum_exp(here + end, dim=1), result)
        entry.append(log_sum_exp(here[:, :, None] + tables, dim=1))
    return result


def _scores(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """Contiguous; all but the segments in float64; lengths between 0 and t."""
    small = (x.double().contiguous() for x in (tables, start, end))
    return segments.contiguous(), *small, lengths.clamp(0, segments.shape[1]).contiguous()


def forward_backward(
    segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, both_ways: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(log Z, marginals, ``alpha``, ``rest``); the last three are empty one way."""
    segments, tables, start, end, lengths = _scores(segments, tables, start, end, lengths)
    b, t, m, k = segments.shape
    each = b // tables.shape[0]
    log_z = torch.empty(b, dtype=torch.float64)
    chances = segments.new_empty(segments.shape if both_ways else (0, 0, 0, 0))
    alpha, rest = (torch.empty((b, t + 1, k) if both_ways else (0, 0, 0), dtype=torch.float64) for _ in range(2))
    tensors = (segments, tables, tables.transpose(1, 2).contiguous(), start, end, lengths)
    arrays = [x.numpy() for x in tensors]

    def run(low: int, high: int) -> None:
        inner = (alpha, rest) if both_ways else [torch.empty((1, t + 1, k), dtype=torch.float64)] * 2
        results = [x.numpy() for x in (log_z, chances, *inner)]
        sum_rows(*arrays, each, low, high, both_ways, *results)

    in_row_blocks(run, b, 4 * b * t * k * (m + k) * (3 if both_ways else 1))
    if both_ways:
        chances[log_z.isnan()] = torch.nan
    return log_z, chances, alpha, rest


# --- operators --------------------------------------------------------------------------------------------------------


@torch_operator("semimarkov_sum_one_way")
def _one_way(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    return forward_backward(segments, tables, start, end, lengths, both_ways=False)[0].to(segments.dtype)


@torch_operator("semimarkov_sum_both_ways")
def _both_ways(
    segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    log_z, chances, alpha, rest = forward_backward(segments, tables, start, end, lengths, both_ways=True)
    return log_z.to(segments.dtype), chances, alpha, rest, log_z.clone()


@torch_operator("semimarkov_slopes")
def _slopes_op(
    scale: Tensor,
    segments: Tensor,
    tables: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    chances: Tensor,
    alpha: Tensor,
    rest: Tensor,
    log_z: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    _, wide, first, last, lengths = _scores(segments, tables, start, end, lengths)
    found = [torch.zeros_like(x) for x in (wide, first, last)]
    given = [x.contiguous().numpy() for x in (scale.double(), log_z, wide, first, last, lengths)]
    each = segments.shape[0] // tables.shape[0]
    expected_neighbors(*given, each, *(x.contiguous().numpy() for x in (alpha, rest)), *(x.numpy() for x in found))
    by_tables, by_start, by_end = (x.to(segments.dtype, copy=True) for x in found)
    return chances * scale[:, None, None, None], by_tables, by_start, by_end


@_one_way.register_fake
def _(segments: Tensor, *_: Tensor) -> Tensor:
    return segments.new_empty(segments.shape[0])


@_both_ways.register_fake
def _(segments: Tensor, *_: Tensor) -> Any:
    b, t, _m, k = segments.shape
    inner = (segments.new_empty((b, t + 1, k), dtype=torch.float64) for _ in range(2))
    chances = torch.empty_like(segments, memory_format=torch.contiguous_format)
    return segments.new_empty(b), chances, *inner, segments.new_empty(b, dtype=torch.float64)


register_gradient_shapes(_slopes_op, 4)


for _op in (_one_way, _both_ways, _slopes_op):
    fold_vmap(_op)


# --- derivatives ------------------------------------------------------------------------------------------------------


def _back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    kept = _sum_both_ways(*ctx.saved_tensors)[1:]
    return *_slopes(grad, *ctx.saved_tensors, *kept), None


def _back_both_ways(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    return *_slopes(grad, *ctx.saved_tensors), None


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, *scores, lengths = ctx.saved_tensors[:6]
    by_inputs = second_derivative(partial(plain_log_partition, lengths=lengths), scale, scores, grads)
    return *by_inputs, *(None for _ in range(5))


_sum_one_way = differentiable(_one_way, keep_inputs, _back_one_way)
_sum_both_ways = differentiable(_both_ways, keep_all, _back_both_ways)
_slopes = differentiable(_slopes_op, keep_inputs, _back_slopes, is_gradient=True)
