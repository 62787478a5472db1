"""Torch operators for sums over linear chains on the CPU: log Z and its gradient.

Rows of the batch are on the first axis. ``tables`` are the transitions: ``[g, k, k]``, each shared by ``b / g``
consecutive rows and all their positions, or ``[b, t, k, k]``, one for each position. ``start`` and ``end`` are
``[g, k]`` or ``[b, k]``. If all rows share them, :func:`log_partition` takes them without the first axis. Three tensors
of the size of the emissions are saved for the backward pass.

The loops are in :mod:`catena.kernels.chain.cpu`, their input in :mod:`catena.kernels.chain.arrays`. The second
derivative is computed with :func:`log_partition_reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.chain.arrays import Chains, Float64Retry, FloatArray
from catena.kernels.chain.cpu import BOTH_WAYS, ONE_WAY, scale_marginals
from catena.kernels.chain.reference import log_partition_reference
from catena.kernels.common.ops import as_array, first_result, is_plain, needs_grad
from catena.kernels.common.sums import RowSums


def log_partition(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    arguments = (emissions, tables, start, end, lengths)
    if is_plain() and needs_grad(*arguments):
        return _log_z_of_shared(*arguments)
    return SUMS.log_partition(*with_rows(*arguments))


def log_partition_and_marginals(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every tag at every position."""
    arguments = (emissions, tables, start, end, lengths)
    if not needs_grad(*arguments):
        log_z, marginals, *_ = SUMS.log_z_and_kept(*arguments)
        return log_z, marginals
    log_z, marginals = SUMS.log_partition_and_marginals(*arguments)
    return log_z, marginals[0]


def with_rows(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """The arguments with a first axis for what all rows share."""
    return (
        emissions,
        tables[None] if tables.dim() == 2 else tables,
        start[None] if start.dim() == 1 else start,
        end[None] if end.dim() == 1 else end,
        lengths,
    )


def forward_backward(chains: Chains, keep: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """What :meth:`Chains.summed` gives, with the rows that are not exact done with more range."""
    log_z, marginals, a, onward, exact = chains.summed(keep)
    if np.count_nonzero(exact) < len(exact):
        found = Float64Retry.of(chains, exact, np.ones(len(exact)))
        log_z[found.rows] = found.log_z
        if keep == BOTH_WAYS:
            marginals[found.rows] = found.marginals
    return log_z, marginals, a, onward, exact


def log_partition_gradients(
    chains: Chains, scale: FloatArray, marginals: Tensor, a: Tensor, onward: Tensor, exact: Tensor
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The gradients by emissions, tables, starts and ends of the log Z of all rows, each times its scale."""
    by_emissions = np.empty_like(chains.emissions)
    by_start = np.zeros_like(chains.start)
    by_end = np.zeros_like(chains.end)
    factors = np.ascontiguousarray(scale)
    scale_marginals(as_array(marginals), factors, by_emissions, chains.lengths, chains.sharing[2], by_start, by_end)
    by_tables = chains.expected_pairs(as_array(a), as_array(onward), scale)
    fine = exact.numpy()
    if np.count_nonzero(fine) < len(fine):
        found = Float64Retry.of(chains, fine, scale)
        np.add.at(by_tables, chains.groups()[found.rows].reshape(-1), found.pairs.astype(by_tables.dtype))
    return by_emissions, by_tables, by_start, by_end


def _sum(keep: bool, *arguments: Tensor) -> tuple[Tensor, ...]:
    log_z, *kept = forward_backward(Chains.of(*arguments), BOTH_WAYS if keep else ONE_WAY)
    return torch.from_numpy(log_z.astype(kept[0].dtype)), *(torch.from_numpy(x) for x in kept)


def _gradients(scale: Tensor, *arguments: Tensor) -> tuple[Tensor, ...]:
    *given, marginals, a, onward, exact = arguments
    found = log_partition_gradients(Chains.of(*given), scale.numpy(), marginals, a, onward, exact)
    return tuple(torch.from_numpy(x.reshape(score.shape)) for x, score in zip(found, given, strict=False))


def kept_shapes(emissions: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Empty tensors in the shapes of what is saved for the backward pass."""
    kept = (torch.empty_like(emissions, memory_format=torch.contiguous_format) for _ in range(3))
    return *kept, emissions.new_empty(emissions.shape[0], dtype=torch.bool)


SUMS = RowSums("chain", log_partition_reference, 4, sum_rows=_sum, kept=kept_shapes, n_kept=4, gradients=_gradients)


def _back_shared(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    """The derivative for arguments without a first axis for what all rows share."""
    if grad is None:
        return (None,) * 5
    saved = ctx.saved_tensors
    if is_plain() and not torch.is_grad_enabled():
        return *_gradients(grad, *saved), None
    found = SUMS.gradients(grad, *with_rows(*saved[:5]), *saved[5:])
    return *(x.view(score.shape) for x, score in zip(found, saved, strict=False)), None


_log_z_of_shared = first_result(SUMS.keep_op, _back_shared)
