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

import torch
from torch import Tensor

from catena.kernels.chain_loops import LIMITS, level_rows, level_tables, log_rows, sum_rows
from catena.kernels.ops import differentiable, fold_vmap, wants_gradient
from catena.kernels.threads import in_row_blocks
from catena.numerics import log_sum_exp


def log_partition(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    arguments = (emissions, tables, start, end, lengths)
    if wants_gradient(*arguments):
        return _sum_both_ways(*arguments)[0]
    return _sum_one_way(*arguments)


def log_partition_and_marginals(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every tag at every position."""
    arguments = (emissions, tables, start, end, lengths)
    log_z, *kept = _sum_both_ways(*arguments)
    if not wants_gradient(*arguments):
        return log_z, kept[0]
    return log_z, _slopes(torch.ones_like(log_z), *arguments, *(x.detach() for x in kept))[0]


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
    """Scores in the notation of the loops: ``x``, ``shift``, ``moves`` and which of them each row reads."""

    x: Tensor
    shift: Tensor
    moves: Tensor
    each: int
    stride: int
    lengths: Tensor

    def summed(self, both_ways: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """(log Z, marginals, forward weights, onward weights, whether each row is exact)."""
        b, t, k = self.x.shape
        matrix = self.moves.exp()
        matrix_t = matrix.transpose(1, 2).contiguous() if both_ways else matrix
        log_z, exact = torch.empty(b, dtype=torch.float64), torch.empty(b, dtype=torch.bool)
        size = (b, t, k) if both_ways else (1, 1, 1)
        chances, a, onward = (torch.empty(size, dtype=self.x.dtype) for _ in range(3))
        arrays = [x.numpy() for x in (self.x, self.x.exp(), self.shift, self.moves, matrix, matrix_t)]
        lengths, limits = self.lengths.numpy(), LIMITS[arrays[0].dtype]

        def run(low: int, high: int) -> None:
            mine = a if both_ways else torch.empty((1, t, k), dtype=self.x.dtype)
            results = [x.numpy() for x in (log_z, mine, chances, onward, exact)]
            sum_rows(*arrays, self.each, self.stride, lengths, low, high, both_ways, *results, *limits)

        in_row_blocks(run, b, b * t * k * k * (2 if both_ways else 1))
        return log_z, chances, a, onward, exact

    def in_logs(self, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(log Z, marginals, scale × expected pairs for each table), in log space."""
        log_z = torch.empty(len(self.x), dtype=torch.float64)
        chances, pairs = torch.empty_like(self.x), torch.zeros_like(self.moves)
        arrays = [x.numpy() for x in (self.x, self.shift, self.moves)]
        results = [x.numpy() for x in (self.lengths, scale, log_z, chances, pairs)]
        log_rows(*arrays, self.each, self.stride, *results)
        return log_z, chances, pairs


def chains_of(*arguments: Tensor) -> Chains:
    """Emissions, tables, start, end and lengths, all contiguous, in the notation of the loops."""
    emissions, tables, start, end, lengths = arguments
    b, t, k = emissions.shape
    flat = tables.view(-1, k, k)
    moves, steepest = torch.empty_like(flat), flat.new_empty(flat.shape[:2])
    level_tables(flat.numpy(), steepest.numpy(), moves.numpy())
    x, shift = torch.empty_like(emissions), emissions.new_empty(b, t)
    each, stride = b // tables.shape[0], tables.dim() - 3
    arrays = [v.numpy() for v in (emissions, steepest, start, end, lengths)]
    level_rows(*arrays, each, stride, b // start.shape[0], x.numpy(), shift.numpy())
    return Chains(x, shift, moves, each, stride, lengths)


def _expected_pairs(tables: Tensor, a: Tensor, onward: Tensor, scale: Tensor) -> Tensor:
    """Scale × expected pairs for each table, from the forward and the onward weights."""
    k = a.shape[2]
    counts = torch.empty_like(tables)
    flat = tables.view(-1, k, k)
    level_tables(flat.numpy(), flat.new_empty(flat.shape[:2]).numpy(), counts.view(flat.shape).numpy())
    counts.exp_()
    onward = onward * scale[:, None, None]
    if tables.dim() == 3:
        return counts.mul_(a.view(len(tables), -1, k).transpose(1, 2) @ onward.view(len(tables), -1, k))
    counts[:, 0] = 0
    counts[:, 1:] *= a[:, :-1, :, None] * onward[:, :-1, None, :]
    return counts


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
    def of(cls, arguments: Sequence[Tensor], exact: Tensor, scale: Tensor) -> _Rescued:
        """The rows that are not exact: float32 goes on in float64, float64 in log space."""
        emissions, tables, start, end, lengths = arguments
        rows = (~exact).nonzero()[:, 0]
        group, edge = (_groups(emissions.shape[0], x.shape[0])[rows] for x in (tables, start))
        scores = (emissions[rows], tables[group], start[edge], end[edge])
        wide = [*(x.double() for x in scores), lengths[rows]]
        scale, shape = scale[rows].double(), wide[1].shape
        chains = chains_of(*wide)
        if emissions.dtype == torch.float64:
            log_z, chances, pairs = chains.in_logs(scale)
            return cls(rows, log_z, chances, pairs.view(shape))
        log_z, chances, a, onward, fits = chains.summed(both_ways=True)
        pairs = _expected_pairs(wide[1], a, onward, scale)
        if not fits.all():
            rest = cls.of(wide, fits, scale)
            log_z[rest.rows], chances[rest.rows], pairs[rest.rows] = rest.log_z, rest.chances, rest.pairs
        return cls(rows, log_z, chances, pairs)


# --- operators ----------------------------------------------------------------------------------------------


@torch.library.custom_op("catena::chain_sum_one_way", mutates_args=())
def _one_way(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    arguments = ready(emissions, tables, start, end, lengths)
    log_z, _, _, _, exact = chains_of(*arguments).summed(both_ways=False)
    if not exact.all():
        found = _Rescued.of(arguments, exact, torch.ones(len(emissions)))
        log_z[found.rows] = found.log_z
    return log_z.to(emissions.dtype)


@torch.library.custom_op("catena::chain_sum_both_ways", mutates_args=())
def _both_ways(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    arguments = ready(emissions, tables, start, end, lengths)
    log_z, chances, a, onward, exact = chains_of(*arguments).summed(both_ways=True)
    if not exact.all():
        found = _Rescued.of(arguments, exact, torch.ones(len(emissions)))
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
    emissions, tables, start, end, lengths = arguments = ready(emissions, tables, start, end, lengths)
    b, _, k = emissions.shape
    by_emissions = chances * scale[:, None, None]
    by_tables = _expected_pairs(tables, a, onward, scale)
    if not exact.all():
        found = _Rescued.of(arguments, exact, scale)
        pairs = found.pairs.to(by_tables.dtype)
        by_tables.index_add_(0, _groups(b, len(tables))[found.rows], pairs)
    by_start = by_emissions[:, 0].view(len(start), -1, k).sum(1)
    by_end = by_emissions[torch.arange(b), lengths - 1].view(len(end), -1, k).sum(1)
    return by_emissions, by_tables, by_start, by_end


def ready(*arguments: Tensor) -> list[Tensor]:
    """The arguments as the loops need them: contiguous, and lengths between 0 and t."""
    *scores, lengths = arguments
    return [*(x.contiguous() for x in scores), lengths.clamp(0, scores[0].shape[1]).contiguous()]


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
    kept = _sum_both_ways(*inputs)[1:]
    return *_slopes(grad, *inputs, *kept), None


def _back_both_ways(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 5
    return *_slopes(grad, *ctx.saved_tensors), None


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, *scores, lengths = ctx.saved_tensors[:6]

    def slopes(scale: Tensor, *scores: Tensor) -> Any:
        _, pull = cast(Any, torch.func.vjp(lambda e, w, s, f: plain_log_partition(e, w, s, f, lengths), *scores))
        return pull(scale)

    by_inputs = cast(Any, torch.func.vjp(slopes, scale, *scores))[1](grads)
    return *by_inputs, *(None for _ in range(5))


_sum_one_way = differentiable(_one_way, _keep_inputs, _back_one_way)
_sum_both_ways = differentiable(_both_ways, _keep_all, _back_both_ways)
_slopes = differentiable(_slopes_op, _keep_inputs, _back_slopes)
