"""Compiled loops over single tag sequences: their scores, the best, the k best, and samples.

The notation is as in :mod:`catena.kernels.chain.cpu`. Backtracking recomputes its choices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.vector_math import exp_less, vector_max


@jit("3", "3", "2", "2", "i1", "i", "i", "i", "i2", "d1", "i1")
def score_rows(
    emissions: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, stride: int, each_edge: int, tags: Any,
    scores: Any, unknown: Any,
) -> None:  # fmt: skip
    """The score of one chain for each row; -inf where a tag is below 0. A tag that there is not goes to ``unknown``."""
    rows, t_most, k = emissions.shape
    for r in range(rows):
        n = lengths[r]
        edge = r // each_edge
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
        n = lengths[r]
        edge = r // each_edge
        possible = True
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


@jit_function()
def _best_moves(before: Any, moves: Any, here: Any) -> None:
    """here[q] = max_p before[p] + moves[p, q], four rows at a time."""
    k = here.shape[0]
    p = 0
    while p + 4 <= k:
        b0, b1, b2, b3 = before[p], before[p + 1], before[p + 2], before[p + 3]
        row0, row1, row2, row3 = moves[p], moves[p + 1], moves[p + 2], moves[p + 3]
        for q in range(k):
            v0 = b0 + row0[q]
            v1 = b1 + row1[q]
            v2 = b2 + row2[q]
            v3 = b3 + row3[q]
            v0 = v1 if v1 > v0 else v0
            v2 = v3 if v3 > v2 else v2
            v0 = v2 if v2 > v0 else v0
            here[q] = v0 if v0 > here[q] else here[q]
        p += 4
    while p < k:
        b0 = before[p]
        row0 = moves[p]
        for q in range(k):
            v0 = b0 + row0[q]
            here[q] = v0 if v0 > here[q] else here[q]
        p += 1


@jit_function()
def _best_ends(emissions: Any, tables: Any, start: Any, end: Any, table: int, stride: int, n: int, best: Any) -> None:
    """``best[t, q]`` is the score of the best prefix that ends with ``q`` at ``t``, minus the best at ``t``."""
    k = emissions.shape[1]
    for t in range(n):
        here = best[t]
        alone = emissions[t]
        for q in range(k):
            here[q] = start[q] if t == 0 else -np.inf
        if t > 0:
            _best_moves(best[t - 1], tables[table + t * stride], here)
        for q in range(k):
            here[q] += alone[q]
        if t == n - 1:
            for q in range(k):
                here[q] += end[q]
        top = vector_max(here)
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
        n = lengths[r]
        edge = r // each_edge
        table = r // each * (t_most if stride else 1)
        for t in range(t_most):
            tags[r, t] = -1
        _best_ends(emissions[r], tables, start[edge], end[edge], table, stride, n, best)
        q = -1
        for t in range(n - 1, -1, -1):
            top = -np.inf
            choice = -1
            for p in range(k):
                value = best[t, p] if q < 0 else best[t, p] + tables[table + (t + 1) * stride, p, q]
                if value > top:
                    top = value
                    choice = p
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
                scores[place] = scores[place - 1]
                tags[place] = tags[place - 1]
                ranks[place] = ranks[place - 1]
                place -= 1
            scores[place] = value
            tags[place] = p
            ranks[place] = j
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
    scores = np.empty(width, emissions.dtype)
    from_tag = np.empty(width, np.int64)
    from_rank = np.empty(width, np.int64)
    for r in range(low, high):
        n = lengths[r]
        edge = r // each_edge
        table = r // each * (t_most if stride else 1)
        for i in range(width):
            for t in range(t_most):
                tags[r, i, t] = -1
        found[r] = 1
        if n == 0:
            continue
        for t in range(n):
            for q in range(k):
                count = 1
                scores[0] = start[edge, q]
                if t > 0:
                    count = _ranked(best[t - 1], tables, table + t * stride, q, scores, from_tag, from_rank)
                alone = emissions[r, t, q] + (end[edge, q] if t == n - 1 else 0)
                for j in range(width):
                    best[t, q, j] = scores[j] + alone if j < count else -np.inf
        found[r] = _ranked(best[n - 1], tables, 0, -1, scores, from_tag, from_rank)
        for i in range(found[r]):
            _ranked(best[n - 1], tables, 0, -1, scores, from_tag, from_rank)
            q = from_tag[i]
            j = from_rank[i]
            tags[r, i, n - 1] = q
            for t in range(n - 1, 0, -1):
                _ranked(best[t - 1], tables, table + t * stride, q, scores, from_tag, from_rank)
                q = from_tag[j]
                j = from_rank[j]
                tags[r, i, t - 1] = q


@jit_function()
def sample_index(weights: Any, uniform: float) -> int:
    """A number drawn in proportion to the weights; -1 where all are 0."""
    total = 0.0
    for value in weights:
        total += value
    place = -1
    running = 0.0
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
    weights = np.empty(k)
    shares = np.empty(k)
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
                    exp_less(weights, vector_max(weights), shares)
                q = tags[i, r, t] = sample_index(shares if logs else weights, uniforms[i, r, t])
