"""Sums over linear chains on the CPU: log Z and its gradient in one pass, as operators of torch.

Rows of the batch lie on the first axis. ``tables`` are the transitions: ``[g, k, k]``, each shared by ``b /
g`` consecutive rows and all their positions, or ``[b, t, k, k]``, one for each position. ``start`` and
``end`` are ``[g, k]`` or ``[b, k]`` likewise. Kept for the backward pass: three tensors the size of the
emissions.

The loops are in :mod:`catena.kernels.chain_loops`. The second derivative is taken through
:func:`plain_log_partition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from catena.kernels.chain_loops import BOTH_WAYS, LIMITS, ONE_WAY, level_tables, log_rows, scale_chances, sum_rows
from catena.kernels.ops import differentiable, fold_vmap, wants_gradient
from catena.kernels.threads import in_row_blocks
from catena.numerics import log_sum_exp


def log_partition(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    arguments = (emissions, tables, start, end, lengths)
    if wants_gradient(*arguments):
        return sum_both_ways(*arguments)[0]
    return _sum_one_way(*arguments)


def log_partition_and_marginals(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every tag at every position."""
    arguments = (emissions, tables, start, end, lengths)
    log_z, *kept = sum_both_ways(*arguments)
    if not wants_gradient(*arguments):
        return log_z, kept[0]
    return log_z, slopes(torch.ones_like(log_z), *arguments, *(x.detach() for x in kept))[0]


def plain_log_partition(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
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


# --- from tensors to what the loops read --------------------------------------------------------------------


@dataclass(frozen=True)
class Chains:
    """What the loops read: contiguous tensors, and how many rows share a table, a start and an end."""

    emissions: Tensor
    tables: Tensor
    start: Tensor
    end: Tensor
    lengths: Tensor

    @property
    def sharing(self) -> tuple[int, int, int]:
        """(rows that share a table, tables from one position to the next, rows that share a start and an end)."""
        b = self.emissions.shape[0]
        return b // self.tables.shape[0], self.tables.dim() - 3, b // self.start.shape[0]

    @property
    def flat_tables(self) -> Tensor:
        return self.tables.view(-1, *self.tables.shape[-2:])

    def levelled(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(the greatest of each column and the starts, tables less that, their exponentials, transposed too)."""
        tables, (edges, k) = self.flat_tables, self.start.shape
        entry = tables.new_empty(tables.shape[0] + edges, k)
        entry[-edges:] = self.start
        moves, matrix, matrix_t = (torch.empty_like(tables) for _ in range(3))
        level_tables(*(x.numpy() for x in (tables, entry, moves, matrix, matrix_t)))
        return entry, moves, matrix, matrix_t

    def summed(self, keep: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """(log Z, marginals, forward weights, onward weights, whether each row is exact)."""
        b, t, k = self.emissions.shape
        each, stride, each_edge = self.sharing
        lengths = self.lengths.numpy()
        # Rows of one table stay together, long ones first, so that four of a kind go through it.
        order = np.arange(b)
        if stride == 0 and lengths.min() != lengths.max():
            order = np.lexsort((-lengths, order // each))
        log_z, exact = torch.empty(b, dtype=torch.float64), torch.empty(b, dtype=torch.bool)
        sizes = [(b, t, k) if needed else (1, 1, 1) for needed in (keep > ONE_WAY, *[keep == BOTH_WAYS] * 2)]
        a, chances, onward = (self.emissions.new_empty(size) for size in sizes)
        entry, *matrices = self.levelled()
        arrays = [x.numpy() for x in (self.emissions, entry, self.end, *matrices)]
        results = [x.numpy() for x in (log_z, exact, a, chances, onward)]
        limits = LIMITS[arrays[0].dtype]
        in_row_blocks(
            lambda low, high: sum_rows(
                *arrays, order, each, stride, each_edge, lengths, low, high, keep, *results, *limits
            ),
            b, b * t * k * k * (2 if keep == BOTH_WAYS else 1),
        )  # fmt: skip
        return log_z, chances, a, onward, exact

    def in_logs(self, scale: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(log Z, marginals, logs of the forward weights, scale × expected pairs), in log space and float64."""
        tables = self.flat_tables
        log_z = torch.empty(self.emissions.shape[0], dtype=torch.float64)
        alpha, chances = torch.empty_like(self.emissions), torch.empty_like(self.emissions)
        pairs = torch.zeros_like(tables)
        arrays = [x.numpy() for x in (self.emissions, self.start, self.end, tables)]
        results = [x.numpy() for x in (self.lengths, scale, log_z, alpha, chances, pairs)]
        log_rows(*arrays, *self.sharing, *results)
        return log_z, chances, alpha, pairs.view(self.tables.shape)

    def expected_pairs(self, a: Tensor, onward: Tensor, scale: Tensor) -> Tensor:
        """Scale × expected pairs for each table, from the forward and the onward weights."""
        k = a.shape[2]
        counts = self.levelled()[2].view(self.tables.shape)
        if (scale.numpy() == scale[0].item()).all():  # a sum or a mean over rows: scale the result, not its parts
            counts *= scale[0]
        else:
            onward = onward * scale[:, None, None]
        if self.tables.dim() == 3:
            n = self.tables.shape[0]
            return counts.mul_(a.view(n, -1, k).transpose(1, 2) @ onward.view(n, -1, k))
        counts[:, 0] = 0
        counts[:, 1:] *= a[:, :-1, :, None] * onward[:, :-1, None, :]
        return counts

    def those(self, rows: Tensor) -> Chains:
        """Some of the rows, in float64, each with tables of its own."""
        b = self.emissions.shape[0]
        group, edge = (_groups(b, x.shape[0])[rows] for x in (self.tables, self.start))
        emissions, tables = self.emissions[rows].double(), self.tables[group].double()
        return Chains(emissions, tables, self.start[edge].double(), self.end[edge].double(), self.lengths[rows])


def chains_of(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Chains:
    """The arguments as the loops need them: contiguous, and lengths between 0 and t."""
    lengths = lengths.clamp(0, emissions.shape[1]).contiguous()
    return Chains(emissions.contiguous(), tables.contiguous(), start.contiguous(), end.contiguous(), lengths)


def _groups(b: int, g: int) -> Tensor:
    """The number of the group of each row, when ``b`` rows are ``g`` groups of the same size."""
    return torch.arange(b) // (b // g)


@dataclass(frozen=True)
class _Rescued:
    """Rows for which the range of their floats did not suffice, done with more."""

    rows: Tensor
    log_z: Tensor
    chances: Tensor
    pairs: Tensor
    """``[n, k, k]``, or ``[n, t, k, k]`` where each position has a table; scaled."""

    @classmethod
    def of(cls, chains: Chains, exact: Tensor, scale: Tensor) -> _Rescued:
        """The rows that are not exact: float32 goes on in float64, float64 in log space."""
        rows = (~exact).nonzero()[:, 0]
        wide, scale = chains.those(rows), scale[rows].double()
        if chains.emissions.dtype == torch.float64:
            log_z, chances, _, pairs = wide.in_logs(scale)
            return cls(rows, log_z, chances, pairs)
        log_z, chances, a, onward, fits = wide.summed(BOTH_WAYS)
        pairs = wide.expected_pairs(a, onward, scale)
        if not fits.all():
            rest = cls.of(wide, fits, scale)
            log_z[rest.rows], chances[rest.rows], pairs[rest.rows] = rest.log_z, rest.chances, rest.pairs
        return cls(rows, log_z, chances, pairs)


# --- operators ----------------------------------------------------------------------------------------------


@torch.library.custom_op("catena::chain_sum_one_way", mutates_args=())
def _one_way(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    chains = chains_of(emissions, tables, start, end, lengths)
    log_z, _, _, _, exact = chains.summed(ONE_WAY)
    if not exact.all():
        found = _Rescued.of(chains, exact, torch.ones(emissions.shape[0]))
        log_z[found.rows] = found.log_z
    return log_z.to(emissions.dtype)


@torch.library.custom_op("catena::chainsum_both_ways", mutates_args=())
def _both_ways(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    chains = chains_of(emissions, tables, start, end, lengths)
    log_z, chances, a, onward, exact = chains.summed(BOTH_WAYS)
    if not exact.all():
        found = _Rescued.of(chains, exact, torch.ones(emissions.shape[0]))
        log_z[found.rows] = found.log_z
        chances[found.rows] = found.chances.to(chances.dtype)
    return log_z.to(emissions.dtype), chances, a, onward, exact


@torch.library.custom_op("catena::chain_slopes", mutates_args=())
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
    chains = chains_of(emissions, tables, start, end, lengths)
    b = emissions.shape[0]
    by_emissions, by_start, by_end = (
        torch.empty_like(chances),
        torch.zeros_like(chains.start),
        torch.zeros_like(chains.end),
    )
    given = [x.contiguous().numpy() for x in (chances, scale)]
    found_edges = (by_start.numpy(), by_end.numpy())
    scale_chances(*given, by_emissions.numpy(), chains.lengths.numpy(), chains.sharing[2], *found_edges)
    by_tables = chains.expected_pairs(a, onward, scale)
    if not exact.all():
        found = _Rescued.of(chains, exact, scale)
        by_tables.index_add_(0, _groups(b, tables.shape[0])[found.rows], found.pairs.to(by_tables.dtype))
    return by_emissions, by_tables, by_start, by_end


@_one_way.register_fake
def _(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


@_both_ways.register_fake
def _(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Any:
    b = emissions.shape[0]
    kept = (torch.empty_like(emissions, memory_format=torch.contiguous_format) for _ in range(3))
    return emissions.new_empty(b), *kept, emissions.new_empty(b, dtype=torch.bool)


@_slopes_op.register_fake
def _(scale: Tensor, *inputs: Tensor) -> Any:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs[:4])


for _op in (_one_way, _both_ways, _slopes_op):
    fold_vmap(_op)


# --- derivatives --------------------------------------------------------------------------------------------


def _keep_inputs(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _keep_all(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs, *output[1:])


def _back_one_way(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    inputs = ctx.saved_tensors
    kept = sum_both_ways(*inputs)[1:]
    return *slopes(grad, *inputs, *kept), None


def _back_both_ways(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    return *slopes(grad, *ctx.saved_tensors), None


def back_slopes(inputs: Sequence[Tensor], grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The second derivative, through the plain form: by the scale and the scores, in the order of the inputs."""
    scale, *scores, lengths = inputs

    def plain_slopes(scale: Tensor, *scores: Tensor) -> Any:
        _, pull = cast(Any, torch.func.vjp(lambda e, w, s, f: plain_log_partition(e, w, s, f, lengths), *scores))
        return pull(scale)

    return cast(Any, torch.func.vjp(plain_slopes, scale, *scores))[1](tuple(grads))


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    return *back_slopes(ctx.saved_tensors[:6], grads), *(None for _ in range(5))


_sum_one_way = differentiable(_one_way, _keep_inputs, _back_one_way)
sum_both_ways = differentiable(_both_ways, _keep_all, _back_both_ways)
slopes = differentiable(_slopes_op, _keep_inputs, _back_slopes)
