"""Sums over span trees on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis: ``scores`` are ``[b, t, t, k]``. All is computed in float64, whatever
the dtype. Kept for the backward pass beside the scores: the probability of each span, ``[b, t (t + 1) / 2]``, by
first and then by last word. The fractions of its labels are recomputed from the scores.

The loops are in :mod:`catena.kernels.tree_loops`. The second derivative is taken through
:func:`plain_log_partition`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.ops import (
    as_array,
    differentiable,
    first_result,
    fold_vmap,
    is_plain,
    keep_all,
    keep_inputs,
    needs_grad,
    torch_operator,
)
from catena.kernels.second_derivative import second_derivative
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree_loops import LANES, ROOM, share_rows, sum_rows
from catena.numerics import NEG_INF, log_sum_exp


def log_partition(scores: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    if not needs_grad(scores):
        return _one_way(scores, lengths)
    return _sum_alone(scores, lengths) if is_plain() else _sum_both_ways(scores, lengths)[0]


def log_partition_and_marginals(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every labeled span."""
    log_z, chances = _sum_both_ways(scores, lengths)
    return log_z, _slopes(torch.ones_like(log_z), scores, lengths, chances.detach())


def plain_log_partition(scores: Tensor, lengths: Tensor) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    t = scores.shape[1]
    total = scores.new_zeros(scores.shape[0])
    by_width: list[Tensor] = []
    for w in range(t):
        here, n = scores.diagonal(w, dim1=1, dim2=2), t - w  # rows, labels, spans of w + 1 words
        if w > 0:
            left = torch.stack([by_width[u][:, :n] for u in range(w)])
            right = torch.stack([by_width[w - 1 - u][:, u + 1 : u + 1 + n] for u in range(w)])
            here = here + log_sum_exp(left + right, dim=0)[:, None]
        by_width.append(log_sum_exp(here, dim=1))
        total = torch.where(lengths == w + 1, by_width[w][:, 0], total)
    return total


# --- operators ----------------------------------------------------------------------------------------------


def _summed(scores: Tensor, lengths: Tensor, both_ways: bool) -> tuple[Tensor, Tensor]:
    b, t, _, k = scores.shape
    numbers, sizes = as_array(scores), as_array(lengths)
    if sizes.min() < 0 or sizes.max() > t:
        sizes = sizes.clip(0, t)
    log_z = np.empty(b)
    chances = np.empty((b, t * (t + 1) // 2) if both_ways else (1, 1), numbers.dtype)
    lanes = max(1, min(LANES, b, ROOM // (t * t)))
    work = b * t**2 * (t + 3 * k)
    in_row_blocks(lambda low, high: sum_rows(numbers, sizes, low, high, both_ways, lanes, log_z, chances), b, work)
    return torch.from_numpy(log_z.astype(numbers.dtype)), torch.from_numpy(chances)


def ready(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Contiguous, with lengths that fit, and without trees where a score is nan or +inf: loops would not end there."""
    wrong = _rows_without_numbers(scores, lengths)
    scores = scores.detach() if wrong is None else torch.where(wrong[:, None, None, None], NEG_INF, scores.detach())
    return scores.contiguous(), lengths.clamp(0, scores.shape[1]).contiguous()


def _rows_without_numbers(scores: Tensor, lengths: Tensor) -> Tensor | None:
    """Where the score of a span is nan or +inf; None where there is no such score anywhere."""
    if scores.numel() == 0 or float(scores.detach().amax()) < torch.inf:
        return None
    places = torch.arange(scores.shape[1])
    read = (places[:, None] <= places) & (places < lengths[:, None, None])
    return ~(torch.where(read[..., None], scores.detach(), NEG_INF).flatten(1).amax(1) < torch.inf)


@torch_operator("tree_sum_one_way")
def _one_way_op(scores: Tensor, lengths: Tensor) -> Tensor:
    return _summed(scores, lengths, both_ways=False)[0]


@torch_operator("tree_sum_both_ways")
def _both_ways_op(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    return _summed(scores, lengths, both_ways=True)


@torch_operator("tree_slopes")
def _slopes_op(scale: Tensor, scores: Tensor, lengths: Tensor, chances: Tensor) -> Tensor:
    b, t, _, k = scores.shape
    arrays = (as_array(scores), as_array(scale), as_array(chances))
    gradients = np.zeros(scores.shape, arrays[0].dtype)
    in_row_blocks(lambda low, high: share_rows(*arrays, low, high, gradients), b, 3 * b * t**2 * k)
    return torch.from_numpy(gradients)


@_one_way_op.register_fake
def _(scores: Tensor, lengths: Tensor) -> Tensor:
    return scores.new_empty(scores.shape[0])


@_both_ways_op.register_fake
def _(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    b, t = scores.shape[:2]
    return scores.new_empty(b), scores.new_empty(b, t * (t + 1) // 2)


@_slopes_op.register_fake
def _(scale: Tensor, scores: Tensor, lengths: Tensor, chances: Tensor) -> Tensor:
    return scores.new_empty(scores.shape)


for _op in (_one_way_op, _both_ways_op, _slopes_op):
    fold_vmap(_op)


# --- derivatives --------------------------------------------------------------------------------------------


def _back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    scores, lengths = ctx.saved_tensors
    return _slopes(grad, scores, lengths, _sum_both_ways(scores, lengths)[1]), None


def _back_both_ways(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, None]:
    return None if grad is None else _slopes(grad, *ctx.saved_tensors), None


def _back_slopes(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    scale, scores, lengths, _ = ctx.saved_tensors
    by_inputs = second_derivative(lambda s: plain_log_partition(s, lengths), scale, [scores], [grad])
    return *by_inputs, None, None


_one_way = differentiable(_one_way_op, keep_inputs, _back_one_way)
_sum_both_ways = differentiable(_both_ways_op, keep_all, _back_both_ways)
_slopes = differentiable(_slopes_op, keep_inputs, _back_slopes, is_gradient=True)
_sum_alone = first_result(_both_ways_op, _back_both_ways)
