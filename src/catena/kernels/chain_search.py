"""CPU search of chains: the best, the k best, and samples. Backtracking recomputes its choices.

Arguments are as in :mod:`catena.kernels.chain`; the notation is as in ``chain_loops``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.chain_loops import KEEP_FORWARD, max_of
from catena.kernels.chain_rows import Chains, FloatArray
from catena.kernels.jit import jit, jit_function
from catena.kernels.ops import as_array, draws, fold_vmap, torch_operator
from catena.kernels.threads import in_row_blocks
from catena.kernels.vector_math import exp_less


@jit_function()
def _best_moves(before: Any, moves: Any, here: Any) -> None:
    """here[q] = max_p before[p] + moves[p, q], four rows at a time."""
    k = here.shape[0]
    p = 0
    while p + 4 <= k:
        b0, b1, b2, b3 = before[p], before[p + 1], before[p + 2], before[p + 3]
        row0, row1, row2, row3 = moves[p], moves[p + 1], moves[p + 2], moves[p + 3]
        for q in range(k):
            v0, v1, v2, v3 = b0 + row0[q], b1 + row1[q], b2 + row2[q], b3 + row3[q]
            v0 = v1 if v1 > v0 else v0
            v2 = v3 if v3 > v2 else v2
            v0 = v2 if v2 > v0 else v0
            here[q] = v0 if v0 > here[q] else here[q]
        p += 4
    while p < k:
        b0, row0 = before[p], moves[p]
        for q in range(k):
            v0 = b0 + row0[q]
            here[q] = v0 if v0 > here[q] else here[q]
        p += 1


@jit_function()
def _best_ends(emissions: Any, tables: Any, start: Any, end: Any, table: int, stride: int, n: int, best: Any) -> None:
    """``best[t, q]`` is the score of the best prefix that ends with ``q`` at ``t``, minus the best at ``t``."""
    k = emissions.shape[1]
    for t in range(n):
        here, alone = best[t], emissions[t]
        for q in range(k):
            here[q] = start[q] if t == 0 else -np.inf
        if t > 0:
            _best_moves(best[t - 1], tables[table + t * stride], here)
        for q in range(k):
            here[q] += alone[q]
        if t == n - 1:
            for q in range(k):
                here[q] += end[q]
        top = max_of(here)
        if top > -np.inf:
            for q in range(k):
                here[q] -= top


@jit("3", "3", "2", "2", "i1", "i", "i", "i", "i", "i", "i2")
def best_rows(
    emissions: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, stride: int, each_edge: int, low: int,
    high: int, tags: Any,
) -> None:  # fmt: skip
    """The best chain of each row; -1 beyond its length and where none is possible."""
    _, t_most, k = emissions.shape
    best = np.empty((t_most, k), emissions.dtype)
    for r in range(low, high):
        n, edge = lengths[r], r // each_edge
        table = r // each * (t_most if stride else 1)
        for t in range(t_most):
            tags[r, t] = -1
        _best_ends(emissions[r], tables, start[edge], end[edge], table, stride, n, best)
        q = -1
        for t in range(n - 1, -1, -1):
            top, choice = -np.inf, -1
            for p in range(k):
                value = best[t, p] if q < 0 else best[t, p] + tables[table + (t + 1) * stride, p, q]
                if value > top:
                    top, choice = value, p
            if choice < 0:
                break
            q = tags[r, t] = choice


@jit_function()
def _ranked(before: Any, moves: Any, w: int, q: int, scores: Any, tags: Any, ranks: Any) -> int:
    """The best ways from ``before[p, j]`` to ``q``, or to the end for q = -1, best first; how many there are."""
    k, width = before.shape
    n = 0
    for p in range(k):
        for j in range(width):
            value = before[p, j] + (moves[w, p, q] if q >= 0 else 0)
            if not value > -np.inf or (n == width and value <= scores[n - 1]):
                break
            place = min(n, width - 1)
            while place > 0 and scores[place - 1] < value:
                scores[place], tags[place], ranks[place] = scores[place - 1], tags[place - 1], ranks[place - 1]
                place -= 1
            scores[place], tags[place], ranks[place] = value, p, j
            n = min(n + 1, width)
    return n


@jit("3", "3", "2", "2", "i1", "i", "i", "i", "i", "i", "i3", "i1")
def top_rows(
    emissions: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, stride: int, each_edge: int, low: int,
    high: int, tags: Any, found: Any,
) -> None:  # fmt: skip
    """The best chains of each row into ``tags[r, i]``, best first, and how many there are."""
    _, t_most, k = emissions.shape
    width = tags.shape[1]
    best = np.empty((t_most, k, width), emissions.dtype)
    scores, from_tag, from_rank = np.empty(width, emissions.dtype), np.empty(width, np.int64), np.empty(width, np.int64)
    for r in range(low, high):
        n, edge = lengths[r], r // each_edge
        table = r // each * (t_most if stride else 1)
        for i in range(width):
            for t in range(t_most):
                tags[r, i, t] = -1
        found[r] = 1
        if n == 0:
            continue
        for t in range(n):
            for q in range(k):
                count, scores[0] = 1, start[edge, q]
                if t > 0:
                    count = _ranked(best[t - 1], tables, table + t * stride, q, scores, from_tag, from_rank)
                alone = emissions[r, t, q] + (end[edge, q] if t == n - 1 else 0)
                for j in range(width):
                    best[t, q, j] = scores[j] + alone if j < count else -np.inf
        found[r] = _ranked(best[n - 1], tables, 0, -1, scores, from_tag, from_rank)
        for i in range(found[r]):
            _ranked(best[n - 1], tables, 0, -1, scores, from_tag, from_rank)
            q, j = from_tag[i], from_rank[i]
            tags[r, i, n - 1] = q
            for t in range(n - 1, 0, -1):
                _ranked(best[t - 1], tables, table + t * stride, q, scores, from_tag, from_rank)
                q, j = from_tag[j], from_rank[j]
                tags[r, i, t - 1] = q


@jit_function()
def draw(weights: Any, uniform: float) -> int:
    """A number drawn in proportion to the weights; -1 where all are 0."""
    total = 0.0
    for value in weights:
        total += value
    place, running = -1, 0.0
    for i in range(weights.shape[0]):
        if weights[i] > 0:
            place = i
            running += weights[i]
            if running > uniform * total:
                break
    return place


@jit("3", "3", "i", "i", "i1", "i", "i", "b", "1", "3", "i3")
def sample_rows(
    a: Any, tables: Any, each: int, stride: int, lengths: Any, low: int, high: int, logs: bool, log_z: Any,
    uniforms: Any, tags: Any,
) -> None:  # fmt: skip
    """``tags[i, r]``: chains sampled with ``uniforms[i, r]``, one number for each position, from last to first.

    ``a`` are forward weights and ``tables`` the exponentials of scores; or both are logs.
    """
    _, t_most, k = a.shape
    weights, shares = np.empty(k), np.empty(k)
    for r in range(low, high):
        table = r // each * (t_most if stride else 1)
        for i in range(tags.shape[0]):
            for t in range(t_most):
                tags[i, r, t] = -1
            q = -1
            for t in range(lengths[r] - 1 if log_z[r] > -np.inf else -1, -1, -1):
                w = table + (t + 1) * stride
                for p in range(k):
                    weights[p] = a[r, t, p]
                    if q >= 0:
                        weights[p] = weights[p] + tables[w, p, q] if logs else weights[p] * tables[w, p, q]
                if logs:
                    exp_less(weights, max_of(weights), shares)
                q = tags[i, r, t] = draw(shares if logs else weights, uniforms[i, r, t])


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("chain_best")
def best(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """The tags of the best chain of each row, ``[b, t]``."""
    arguments, shape = _arrays(emissions, tables, start, end, lengths)
    tags = torch.empty(emissions.shape[:2], dtype=torch.int64)
    in_row_blocks(lambda low, high: best_rows(*arguments, low, high, tags.numpy()), shape[0], _work(shape))
    return tags


@torch_operator("chain_top")
def top(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """The tags of the ``n`` best chains of each row, ``[b, n, t]``, and how many of them there are."""
    arguments, shape = _arrays(emissions, tables, start, end, lengths)
    tags = torch.empty((shape[0], n, shape[1]), dtype=torch.int64)
    found = torch.empty(shape[0], dtype=torch.int64)
    in_row_blocks(
        lambda low, high: top_rows(*arguments, low, high, tags.numpy(), found.numpy()), shape[0], 4 * n * _work(shape)
    )
    return tags, found


@torch_operator("chain_sample")
def sample(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    """Chains drawn from each row, ``[n, b, t]``, by uniform numbers of that shape."""
    emissions, tables, start, end = (x.detach().double() for x in (emissions, tables, start, end))
    chains, numbers = Chains.of(emissions, tables, start, end, lengths), as_array(uniforms)
    log_z, _, a, _, exact = chains.summed(KEEP_FORWARD)
    tags = _drawn(chains, log_z, a, chains.leveled()[2], numbers, logs=False)
    if not exact.all():
        rows = np.flatnonzero(~exact)
        rest = chains.those(rows)
        log_z, _, alpha, _ = rest.in_logs(np.ones(len(rows)))
        tags[:, rows] = _drawn(rest, log_z, alpha, rest.tables, numbers[:, rows].copy(), logs=True)
    return torch.from_numpy(tags)


draws(sample, lambda scores, _: scores.shape[1:2])


def _drawn(
    chains: Chains, log_z: FloatArray, a: FloatArray, tables: FloatArray, uniforms: FloatArray, logs: bool
) -> FloatArray:
    each, stride, _ = chains.sharing
    tags = np.empty(uniforms.shape, np.int64)
    b, t, k = a.shape
    in_row_blocks(
        lambda low, high: sample_rows(a, tables, each, stride, chains.lengths, low, high, logs, log_z, uniforms, tags),
        b, 4 * len(uniforms) * b * t * k,
    )  # fmt: skip
    return tags


def _arrays(
    emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[tuple[Any, ...], tuple[int, int, int]]:
    chains = Chains.of(emissions, tables, start, end, lengths)
    b, t, k = emissions.shape
    arrays = (chains.emissions, chains.tables, chains.start, chains.end, chains.lengths)
    return (*arrays, *chains.sharing), (b, t, k)


def _work(shape: tuple[int, int, int]) -> int:
    return shape[0] * shape[1] * shape[2] ** 2


@best.register_fake
def _(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    return emissions.new_empty(emissions.shape[:2], dtype=torch.int64)


@top.register_fake
def _(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, n: int) -> Any:
    b, t, _ = emissions.shape
    return emissions.new_empty((b, n, t), dtype=torch.int64), emissions.new_empty(b, dtype=torch.int64)


fold_vmap(best)
fold_vmap(top)
