"""Sums over linear chains on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis. ``tables`` are the transitions: ``[g, k, k]``, each shared by ``b /
g`` consecutive rows and all their positions, or ``[b, t, k, k]``, one for each position. ``start`` and
``end`` are ``[g, k]`` or ``[b, k]`` too. Where all rows share them, :func:`log_partition` takes them without
the first axis. Saved for the backward pass: three tensors the size of the emissions.

The loops are in :mod:`catena.kernels.chain_loops`, what they read in :mod:`catena.kernels.chain_rows`. The second
derivative is taken through :func:`log_partition_reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.chain_loops import BOTH_WAYS, ONE_WAY, scale_chances
from catena.kernels.chain_rows import Chains, Float64Retry, FloatArray
from catena.kernels.ops import (
    as_array,
    differentiable,
    first_result,
    fold_vmap,
    is_plain,
    keep_all,
    keep_inputs,
    needs_grad,
    register_gradient_shapes,
    torch_operator,
)
from catena.kernels.second_derivative import second_derivative
from catena.numerics import log_sum_exp


def log_partition(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    arguments = (emissions, tables, start, end, lengths)
    if not needs_grad(*arguments):
        return _sum_one_way(*with_rows(*arguments))
    if is_plain():
        return _sum_alone(*arguments)
    return sum_both_ways(*with_rows(*arguments))[0]


def log_partition_and_marginals(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every tag at every position."""
    arguments = (emissions, tables, start, end, lengths)
    log_z, *kept = sum_both_ways(*arguments)
    if not needs_grad(*arguments):
        return log_z, kept[0]
    return log_z, gradients(torch.ones_like(log_z), *arguments, *(x.detach() for x in kept))[0]


def log_partition_reference(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, _ = emissions.shape
    each = b // start.shape[0]
    start, end = start.repeat_interleave(each, 0), end.repeat_interleave(each, 0)
    per_step = tables.dim() == 4
    tables = tables if per_step else tables.repeat_interleave(b // tables.shape[0], 0)
    alpha = emissions[:, 0] + start
    for i in range(1, t):
        paths = alpha[:, :, None] + (tables[:, i] if per_step else tables)
        alpha = torch.where((i < lengths)[:, None], log_sum_exp(paths, dim=1) + emissions[:, i], alpha)
    return torch.where(lengths > 0, log_sum_exp(alpha + end, dim=1), 0.0)


def with_rows(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """The arguments with a first axis for what all rows share."""
    return (
        emissions,
        tables[None] if tables.dim() == 2 else tables,
        start[None] if start.dim() == 1 else start,
        end[None] if end.dim() == 1 else end,
        lengths,
    )


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("chain_sum_one_way")
def _one_way(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    chains = Chains.of(emissions, tables, start, end, lengths)
    return torch.from_numpy(forward_backward(chains, ONE_WAY)[0].astype(chains.emissions.dtype))


@torch_operator("chainsum_both_ways")
def _both_ways(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    log_z, chances, a, onward, exact = forward_backward(Chains.of(emissions, tables, start, end, lengths), BOTH_WAYS)
    of = torch.from_numpy
    return of(log_z.astype(chances.dtype)), of(chances), of(a), of(onward), of(exact)


@torch_operator("chain_slopes")
def _slopes_op(
    scale: Tensor,
    emissions: Tensor,
    tables: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    chances: Tensor,
    a: Tensor,
    onward: Tensor,
    exact: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    by_emissions, by_tables, by_start, by_end = log_partition_gradients(
        chains, scale.numpy(), chances, a, onward, exact
    )
    of = torch.from_numpy
    return of(by_emissions), of(by_tables).view(tables.shape), of(by_start), of(by_end)


def forward_backward(chains: Chains, keep: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """What :meth:`Chains.summed` gives, with the rows that are not exact done with more range."""
    log_z, chances, a, onward, exact = chains.summed(keep)
    if not exact.all():
        found = Float64Retry.of(chains, exact, np.ones(len(exact)))
        log_z[found.rows] = found.log_z
        if keep == BOTH_WAYS:
            chances[found.rows] = found.chances
    return log_z, chances, a, onward, exact


def log_partition_gradients(
    chains: Chains, scale: FloatArray, chances: Tensor, a: Tensor, onward: Tensor, exact: Tensor
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The gradients by emissions, tables, starts and ends of the log Z of all rows, each times its scale."""
    by_emissions = np.empty_like(chains.emissions)
    by_start, by_end = np.zeros_like(chains.start), np.zeros_like(chains.end)
    factors = np.ascontiguousarray(scale)
    scale_chances(as_array(chances), factors, by_emissions, chains.lengths, chains.sharing[2], by_start, by_end)
    by_tables, fine = chains.expected_pairs(as_array(a), as_array(onward), scale), exact.numpy()
    if not fine.all():
        found = Float64Retry.of(chains, fine, scale)
        np.add.at(by_tables, chains.groups()[found.rows].reshape(-1), found.pairs.astype(by_tables.dtype))
    return by_emissions, by_tables, by_start, by_end


@_one_way.register_fake
def _(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


@_both_ways.register_fake
def _(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Any:
    b = emissions.shape[0]
    kept = (torch.empty_like(emissions, memory_format=torch.contiguous_format) for _ in range(3))
    return emissions.new_empty(b), *kept, emissions.new_empty(b, dtype=torch.bool)


register_gradient_shapes(_slopes_op, 4)


for _op in (_one_way, _both_ways, _slopes_op):
    fold_vmap(_op)


# --- derivatives --------------------------------------------------------------------------------------------


def _back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    inputs = ctx.saved_tensors
    kept = sum_both_ways(*inputs)[1:]
    return *gradients(grad, *inputs, *kept), None


def _back_both_ways(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    return *gradients(grad, *ctx.saved_tensors), None


def _back_alone(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    saved = ctx.saved_tensors
    found = gradients(grad, *with_rows(*saved[:5]), *saved[5:])
    return *(x.view(of.shape) for x, of in zip(found, saved, strict=False)), None


def back_slopes(inputs: Sequence[Tensor], grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The second derivative, through the plain form: by the scale and the scores, in the order of the inputs."""
    scale, *scores, lengths = inputs
    return second_derivative(partial(log_partition_reference, lengths=lengths), scale, scores, grads)


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    return *back_slopes(ctx.saved_tensors[:6], grads), *(None for _ in range(5))


_sum_one_way = differentiable(_one_way, keep_inputs, _back_one_way)
sum_both_ways = differentiable(_both_ways, keep_all, _back_both_ways)
gradients = differentiable(_slopes_op, keep_inputs, _back_slopes, is_gradient=True)
_sum_alone = first_result(_both_ways, _back_alone)
