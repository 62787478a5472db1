"""The scores and log-probabilities of given chains, on the CPU.

Arguments are those of :mod:`catena.kernels.chain`, and ``tags`` ``[b, t]``. A score is linear, so its
derivative is the chain itself; that of a log-probability, which is what taggers are trained on, is the chain
less the expected one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.errors import DataError
from catena.kernels.chain import back_slopes, chains_of, slopes, sum_both_ways
from catena.kernels.compiled import compiled
from catena.kernels.ops import differentiable, fold_vmap
from catena.numerics import NEVER


@compiled("3", "3", "2", "2", "i1", "i", "i", "i", "i2", "d1", "i1")
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


@compiled("1", "i2", "i1", "i", "i", "i", "3", "3", "2", "2")
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


@torch.library.custom_op("catena::chain_score", mutates_args=())
def _score(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    chains = chains_of(emissions, tables, start, end, lengths)
    tensors = (chains.emissions, chains.flat_tables, chains.start, chains.end, chains.lengths)
    scores, unknown = torch.empty(emissions.shape[0], dtype=torch.float64), np.array([-1])
    score_rows(*(x.numpy() for x in tensors), *chains.sharing, tags.contiguous().numpy(), scores.numpy(), unknown)
    if unknown[0] >= 0:
        raise DataError(f"tags must lie below their number, {emissions.shape[2]}, but one is {unknown[0]}")
    return scores.to(emissions.dtype)


@torch.library.custom_op("catena::chain_score_slopes", mutates_args=())
def _score_slopes(
    scale: Tensor, emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    chains = chains_of(emissions, tables, start, end, lengths)
    found = [torch.zeros_like(x) for x in (chains.emissions, chains.tables, chains.start, chains.end)]
    arrays = [found[0].numpy(), found[1].view(chains.flat_tables.shape).numpy(), found[2].numpy(), found[3].numpy()]
    given = [x.contiguous().numpy() for x in (scale, tags, chains.lengths)]
    add_parts(*given, *chains.sharing, *arrays)
    return found[0], found[1], found[2], found[3]


@_score.register_fake
def _(emissions: Tensor, *_: Tensor) -> Tensor:
    return emissions.new_empty(emissions.shape[0])


@_score_slopes.register_fake
def _(scale: Tensor, *inputs: Tensor) -> Any:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs[:4])


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _back_score(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_slopes(grad, *ctx.saved_tensors), None, None


def _back_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    lengths, tags = ctx.saved_tensors[-2:]
    by_scale = score(*grads, lengths, tags)
    return torch.where(by_scale == NEVER, 0.0, by_scale), *(None for _ in range(6))


fold_vmap(_score)
fold_vmap(_score_slopes)
score = differentiable(_score, _keep, _back_score)
_slopes = differentiable(_score_slopes, _keep, _back_slopes)


# --- log-probabilities --------------------------------------------------------------------------------------


@torch.library.custom_op("catena::chain_log_prob", mutates_args=())
def _log_prob(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    log_z, *kept = sum_both_ways(emissions, tables, start, end, lengths)
    scores = score(emissions, tables, start, end, lengths, tags)
    log_p = torch.where(log_z == NEVER, NEVER, scores - torch.where(log_z == NEVER, 0.0, log_z))
    return log_p, kept[0], kept[1], kept[2], kept[3]


@torch.library.custom_op("catena::chain_log_prob_slopes", mutates_args=())
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
    found = slopes(-scale, emissions, tables, start, end, lengths, chances, a, onward, exact)
    chains = chains_of(emissions, tables, start, end, lengths)
    arrays = [found[0].numpy(), found[1].view(chains.flat_tables.shape).numpy(), found[2].numpy(), found[3].numpy()]
    given = [x.contiguous().numpy() for x in (scale, tags, chains.lengths)]
    add_parts(*given, *chains.sharing, *arrays)
    return found


@_log_prob.register_fake
def _(emissions: Tensor, *_: Tensor) -> Any:
    b = emissions.shape[0]
    kept = (torch.empty_like(emissions, memory_format=torch.contiguous_format) for _ in range(3))
    return emissions.new_empty(b), *kept, emissions.new_empty(b, dtype=torch.bool)


@_log_prob_slopes.register_fake
def _(scale: Tensor, *inputs: Tensor) -> Any:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs[:4])


def _keep_all(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs, *output[1:])


def _back_log_prob(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    return *_slopes_of_log_prob(grad, *ctx.saved_tensors), None, None


def _back_log_prob_slopes(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    scale, emissions, tables, start, end, lengths, tags = ctx.saved_tensors[:7]
    of_sum = back_slopes((-scale, emissions, tables, start, end, lengths), grads)
    of_score = score(*grads, lengths, tags)
    of_score = torch.where(of_score == NEVER, 0.0, of_score)
    return of_score - of_sum[0], *of_sum[1:], *(None for _ in range(6))


fold_vmap(_log_prob)
fold_vmap(_log_prob_slopes)
_log_prob_and_kept = differentiable(_log_prob, _keep_all, _back_log_prob)
_slopes_of_log_prob = differentiable(_log_prob_slopes, _keep, _back_log_prob_slopes)


def log_prob(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
    """The log-probability of one chain for each row."""
    return _log_prob_and_kept(emissions, tables, start, end, lengths, tags)[0]
