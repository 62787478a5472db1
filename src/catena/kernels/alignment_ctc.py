"""Sums over the labelings of CTC on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis: ``emissions`` are ``[b, t, v]``, ``targets`` ``[b, s]``, and ``n_frames`` and
``n_labels`` say how many of each are real. All is computed in float64, whatever the dtype. Saved for the backward pass:
the probability ``[b, t, s + 1]`` that a frame belongs to each label of the target, and to a blank.

The loops are in :mod:`catena.kernels.alignment_ctc_loops`. The second derivative is taken through
:func:`plain_log_partition`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.alignment_ctc_loops import spread_rows, sum_rows
from catena.kernels.ops import differentiable, fold_vmap, keep_all, keep_inputs, needs_grad, torch_operator
from catena.kernels.second_derivative import second_derivative
from catena.kernels.threads import in_row_blocks
from catena.numerics import NEG_INF, log_sum_exp

WORK = 10
"""What a label at a frame costs, in multiplications."""


def log_partition(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """log Z of every row."""
    if needs_grad(emissions):
        return _sum_both_ways(emissions, targets, n_frames, n_labels, blank)[0]
    return _sum_one_way(emissions, targets, n_frames, n_labels, blank)


def marginals(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """The probability of every label at every frame, ``[b, t, v]``."""
    arguments = (emissions, targets, n_frames, n_labels, blank)
    log_z, chances = _sum_both_ways(*arguments)
    return _slopes(torch.ones_like(log_z), *arguments, chances.detach())


def state_posteriors(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """The probability that a frame belongs to each label of the target and, in the last place, to a blank."""
    return _both_ways(emissions, targets, n_frames, n_labels, blank)[1]


def plain_log_partition(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    (b, t, _), s = emissions.shape, targets.shape[1]
    never = emissions.new_full((b, 1), NEG_INF)
    of_labels = emissions.gather(2, targets[:, None, :].expand(b, t, s))
    blanks, labels = torch.cat((torch.zeros_like(never), never.expand(b, s)), dim=1), never.expand(b, s)
    other = torch.cat((targets[:, :1] != targets[:, :1], targets[:, 1:] != targets[:, :-1]), dim=1)
    may_skip = other & (targets != blank)
    for i in range(t):
        before = torch.cat((never, labels), dim=1)
        to_blanks = log_sum_exp(torch.stack((blanks, before)), dim=0) + emissions[:, i, blank, None]
        skipped = torch.where(may_skip, before[:, :-1], NEG_INF)
        to_labels = log_sum_exp(torch.stack((labels, blanks[:, :-1], skipped)), dim=0) + of_labels[:, i]
        real = (i < n_frames)[:, None]
        blanks, labels = torch.where(real, to_blanks, blanks), torch.where(real, to_labels, labels)
    ends = (x.gather(1, n_labels[:, None])[:, 0] for x in (blanks, torch.cat((never, labels), dim=1)))
    return log_sum_exp(torch.stack(tuple(ends)), dim=0)


# --- operators ----------------------------------------------------------------------------------------------


def ready(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor) -> tuple[Any, ...]:
    """Contiguous arrays, and lengths that fit."""
    n_frames, n_labels = n_frames.clamp(0, emissions.shape[1]), n_labels.clamp(0, targets.shape[1])
    return tuple(x.detach().contiguous().numpy() for x in (emissions, targets, n_frames, n_labels))


def _summed(both_ways: bool, blank: int, *arguments: Tensor) -> tuple[Tensor, Tensor]:
    (b, t, _), s = arguments[0].shape, arguments[1].shape[1]
    log_z = torch.empty(b, dtype=torch.float64)
    chances = torch.zeros((b, t, s + 1) if both_ways else (1, 1, 1), dtype=arguments[0].dtype)
    arrays, results = ready(*arguments), (log_z.numpy(), chances.numpy())
    in_row_blocks(lambda low, high: sum_rows(*arrays, blank, low, high, both_ways, *results), b, WORK * b * t * (s + 1))
    if both_ways:
        chances[log_z.isnan()] = torch.nan
    return log_z.to(arguments[0].dtype), chances


@torch_operator("ctc_sum_one_way")
def _one_way(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    return _summed(False, blank, emissions, targets, n_frames, n_labels)[0]


@torch_operator("ctc_sum_both_ways")
def _both_ways(
    emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    return _summed(True, blank, emissions, targets, n_frames, n_labels)


@torch_operator("ctc_slopes")
def _slopes_op(
    scale: Tensor,
    emissions: Tensor,
    targets: Tensor,
    n_frames: Tensor,
    n_labels: Tensor,
    blank: int,
    chances: Tensor,
) -> Tensor:
    (b, t, _), s = emissions.shape, targets.shape[1]
    result = torch.zeros(emissions.shape, dtype=emissions.dtype)
    lengths = ready(emissions, targets, n_frames, n_labels)[1:]
    arrays = chances.contiguous().numpy(), scale.contiguous().numpy(), *lengths
    in_row_blocks(lambda low, high: spread_rows(*arrays, blank, low, high, result.numpy()), b, 2 * b * t * (s + 1))
    return result


@_one_way.register_fake
def _(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


@_both_ways.register_fake
def _(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    b, t, _ = emissions.shape
    return emissions.new_empty(b), emissions.new_empty(b, t, targets.shape[1] + 1)


@_slopes_op.register_fake
def _(scale: Tensor, emissions: Tensor, *_: Any) -> Tensor:
    return emissions.new_empty(emissions.shape)


for _op in (_one_way, _both_ways, _slopes_op):
    fold_vmap(_op)


# --- derivatives --------------------------------------------------------------------------------------------


def _back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    inputs = (*ctx.saved_tensors, *ctx.constants.values())
    return _slopes(grad, *inputs, _sum_both_ways(*inputs)[1]), *(None for _ in range(4))


def _back_both_ways(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    *inputs, chances = ctx.saved_tensors
    return _slopes(grad, *inputs, *ctx.constants.values(), chances), *(None for _ in range(4))


def _back_slopes(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    scale, emissions, *others = ctx.saved_tensors[:5]

    def log_z(emissions: Tensor) -> Tensor:
        return plain_log_partition(emissions, *others, *ctx.constants.values())

    by_inputs = second_derivative(log_z, scale, [emissions], [grad])
    return *by_inputs, *(None for _ in range(5))


_sum_one_way = differentiable(_one_way, keep_inputs, _back_one_way)
_sum_both_ways = differentiable(_both_ways, keep_all, _back_both_ways)
_slopes = differentiable(_slopes_op, keep_inputs, _back_slopes, is_gradient=True)
