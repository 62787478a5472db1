"""The scores and log-probabilities of given chains, on the CPU.

Arguments are as in :mod:`catena.kernels.chain`, and ``tags`` ``[b, t]``. A score is linear, so its
derivative is the chain itself; that of a log-probability, which is what taggers are trained on, is the chain
less the expected one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.errors import DataError
from catena.kernels.chain import back_slopes, forward_backward, log_partition_gradients, with_rows
from catena.kernels.chain_loops import BOTH_WAYS
from catena.kernels.chain_rows import Chains, FloatArray
from catena.kernels.jit import jit
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
from catena.numerics import NEG_INF


@jit("3", "3", "2", "2", "i1", "i", "i", "i", "i2", "d1", "i1")
def score_rows(
    emissions: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, stride: int, each_edge: int, tags: Any,
    scores: Any, unknown: Any,
) -> None:  # fmt: skip
    """The score of one chain for each row; -inf where a tag is below 0. A tag that there is not goes to ``unknown``."""
    rows, t_most, k = emissions.shape
    for r in range(rows):
        n, edge = lengths[r], r // each_edge
        table = r // each * (t_most if stride else 1)
        total = 0.0
        for t in range(n):
            q = tags[r, t]
            if q < 0 or q >= k:
                total = -np.inf
                unknown[0] = max(unknown[0], q)
                break
            total += emissions[r, t, q]
            total += start[edge, q] if t == 0 else tables[table + t * stride, tags[r, t - 1], q]
            total += end[edge, q] if t == n - 1 else 0.0
        scores[r] = total


@jit("1", "i2", "i1", "i", "i", "i", "3", "3", "2", "2")
def add_parts(
    scale: Any, tags: Any, lengths: Any, each: int, stride: int, each_edge: int, emissions: Any, tables: Any,
    start: Any, end: Any,
) -> None:  # fmt: skip
    """Add ``scale[r]`` at every part of each row's chain."""
    t_most, k = emissions.shape[1:]
    for r in range(tags.shape[0]):
        n, edge, possible = lengths[r], r // each_edge, True
        table = r // each * (t_most if stride else 1)
        for t in range(n):
            possible = possible and 0 <= tags[r, t] < k
        for t in range(n if possible else 0):
            q = tags[r, t]
            emissions[r, t, q] += scale[r]
            if t == 0:
                start[edge, q] += scale[r]
            else:
                tables[table + t * stride, tags[r, t - 1], q] += scale[r]
            if t == n - 1:
                end[edge, q] += scale[r]


@torch_operator("chain_score")
def _score(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    chains = Chains.of(emissions, tables, start, end, lengths)
    return torch.from_numpy(_scored(chains, tags).astype(chains.emissions.dtype))


def _scored(chains: Chains, tags: Tensor) -> FloatArray:
    (b, _, k), unknown = chains.emissions.shape, np.array([-1])
    scores, arrays = np.empty(b), (chains.emissions, chains.tables, chains.start, chains.end, chains.lengths)
    score_rows(*arrays, *chains.sharing, as_array(tags), scores, unknown)
    if unknown[0] >= 0:
        raise DataError(f"Tags must be below k = {k}, got {unknown[0]}. Check the tag ids, or pass more tags.")
    return scores


@torch_operator("chain_score_slopes")
def _score_slopes(
    scale: Tensor, emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    found = [np.zeros_like(x) for x in (chains.emissions, chains.tables, chains.start, chains.end)]
    add_parts(as_array(scale), as_array(tags), chains.lengths, *chains.sharing, *found)
    by_emissions, by_tables, by_start, by_end = (torch.from_numpy(x) for x in found)
    return by_emissions, by_tables.view(tables.shape), by_start, by_end


@_score.register_fake
def _(emissions: Tensor, *_: Tensor) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


register_gradient_shapes(_score_slopes, 4)


def _back_score(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_slopes(grad, *ctx.saved_tensors), None, None


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    lengths, tags = ctx.saved_tensors[-2:]
    by_scale = score(*grads, lengths, tags)
    return torch.where(by_scale == NEG_INF, 0.0, by_scale), *(None for _ in range(6))


fold_vmap(_score)
fold_vmap(_score_slopes)
score = differentiable(_score, keep_inputs, _back_score)
_slopes = differentiable(_score_slopes, keep_inputs, _back_slopes, is_gradient=True)


# --- log-probabilities --------------------------------------------------------------------------------------


@torch_operator("chain_log_prob")
def _log_prob(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    log_z, *kept = forward_backward(chains, BOTH_WAYS)
    never = log_z == NEG_INF
    log_p = np.where(never, NEG_INF, _scored(chains, tags) - np.where(never, 0.0, log_z))
    chances, a, onward, exact = (torch.from_numpy(x) for x in kept)
    return torch.from_numpy(log_p.astype(chains.emissions.dtype)), chances, a, onward, exact


@torch_operator("chain_log_prob_slopes")
def _log_prob_slopes(
    scale: Tensor,
    emissions: Tensor,
    tables: Tensor,
    start: Tensor,
    end: Tensor,
    lengths: Tensor,
    tags: Tensor,
    chances: Tensor,
    a: Tensor,
    onward: Tensor,
    exact: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chains, factors = Chains.of(emissions, tables, start, end, lengths), as_array(scale)
    found = log_partition_gradients(chains, -factors, chances, a, onward, exact)
    add_parts(factors, as_array(tags), chains.lengths, *chains.sharing, *found)
    by_emissions, by_tables, by_start, by_end = (torch.from_numpy(x) for x in found)
    return by_emissions, by_tables.view(tables.shape), by_start, by_end


@_log_prob.register_fake
def _(emissions: Tensor, *_: Tensor) -> Any:
    b = emissions.shape[0]
    kept = (torch.empty_like(emissions, memory_format=torch.contiguous_format) for _ in range(3))
    return emissions.new_empty(b), *kept, emissions.new_empty(b, dtype=torch.bool)


register_gradient_shapes(_log_prob_slopes, 4)


def _back_log_prob(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    return *_slopes_of_log_prob(grad, *ctx.saved_tensors), None, None


def _back_alone(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    saved = ctx.saved_tensors
    found = _slopes_of_log_prob(grad, *with_rows(*saved[:5]), *saved[5:])
    return *(x.view(of.shape) for x, of in zip(found, saved, strict=False)), None, None


def _back_log_prob_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, emissions, tables, start, end, lengths, tags = ctx.saved_tensors[:7]
    of_sum = back_slopes((-scale, emissions, tables, start, end, lengths), grads)
    of_score = score(*grads, lengths, tags)
    of_score = torch.where(of_score == NEG_INF, 0.0, of_score)
    return of_score - of_sum[0], *of_sum[1:], *(None for _ in range(6))


fold_vmap(_log_prob)
fold_vmap(_log_prob_slopes)
_log_prob_and_kept = differentiable(_log_prob, keep_all, _back_log_prob)
_slopes_of_log_prob = differentiable(_log_prob_slopes, keep_inputs, _back_log_prob_slopes, is_gradient=True)
_log_prob_alone = first_result(_log_prob, _back_alone)


def log_prob(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    """The log-probability of one chain for each row. What all rows share may lack the first axis."""
    if is_plain() and needs_grad(emissions, tables, start, end):
        return _log_prob_alone(emissions, tables, start, end, lengths, tags)
    return _log_prob_and_kept(*with_rows(emissions, tables, start, end, lengths), tags)[0]
