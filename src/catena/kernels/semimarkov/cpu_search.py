"""Compiled loops for the best segmentations, the k best, and samples.

The notation is as in :mod:`catena.kernels.semimarkov.cpu`. Backtracking of the best and of samples recomputes its
choices; the k best are found by lists of the k best of every position and label (Huang & Chiang 2005, algorithm 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import jit, jit_function, jit_inline
from catena.kernels.common.ranked_lists import place_way, top_of_lists
from catena.kernels.semimarkov.cpu import forward


@jit_inline()
def turn_around(triples: Any, count: int) -> None:
    """Triples were found from the last to the first."""
    for c in range(count // 2):
        for v in range(3):
            a, b = triples[c, v], triples[count - 1 - c, v]
            triples[c, v], triples[count - 1 - c, v] = b, a


@jit_function()
def _best_ends(segments: Any, table: Any, start: Any, n: int, best: Any, entry: Any) -> None:
    """``best[j, y]``: the best score of ``j`` positions that end in ``y``; ``entry`` is the same before a segment."""
    m, k = segments.shape[1:]
    for y in range(k):
        entry[0, y] = start[y]
    for j in range(1, n + 1):
        for y in range(k):
            best[j, y] = entry[j, y] = -np.inf
        for size in range(1, min(m, j) + 1):
            for y in range(k):
                value = entry[j - size, y] + segments[j - size, size - 1, y]
                best[j, y] = value if value > best[j, y] else best[j, y]
        for x in range(k):
            for y in range(k):
                value = best[j, x] + table[x, y]
                entry[j, y] = value if value > entry[j, y] else entry[j, y]


@jit("4", "d3", "d2", "d2", "i1", "i", "i", "i", "i3")
def best_rows(
    segments: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int, members: Any
) -> None:
    """The best segmentation of each row; -1 behind its last segment and where none is possible."""
    _, t, m, k = segments.shape
    best = np.empty((t + 1, k))
    entry = np.empty((t + 1, k))
    for r in range(low, high):
        g = r // each
        j = lengths[r]
        count = 0
        label = -1
        for i in range(t):
            for v in range(3):
                members[r, i, v] = -1
        _best_ends(segments[r], tables[g], start[g], j, best, entry)
        while j > 0:
            top = -np.inf
            choice = -1
            for x in range(k):
                value = best[j, x] + (end[g, x] if label < 0 else tables[g, x, label])
                if value > top:
                    top = value
                    choice = x
            if choice < 0:
                break
            label = choice
            top = -np.inf
            size = 1
            for s in range(1, min(m, j) + 1):
                value = entry[j - s, label] + segments[r, j - s, s - 1, label]
                if value > top:
                    top = value
                    size = s
            members[r, count, 0], members[r, count, 1], members[r, count, 2] = j - size, j, label
            count += 1
            j -= size
        turn_around(members[r], count)


@jit_inline()
def _drawn(logs: Any, n: int, uniform: float) -> int:
    """A number below ``n``, drawn in proportion to the exponentials of the logs."""
    top = -np.inf
    total = 0.0
    running = 0.0
    place = -1
    for i in range(n):
        top = max(top, logs[i])
    for i in range(n):
        total += np.exp(logs[i] - top)
    for i in range(n):
        if logs[i] > -np.inf:
            place = i
            running += np.exp(logs[i] - top)
            if running > uniform * total:
                break
    return place


@jit("4", "d3", "d2", "d2", "i1", "i", "i", "i", "d4", "i4")
def sample_rows(
    segments: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int, uniforms: Any,
    members: Any,
) -> None:  # fmt: skip
    """Segmentations ``[i, r]`` sampled with ``uniforms[i, r]``, two numbers for each segment, from the end."""
    _, t, m, k = segments.shape
    alpha = np.empty((t + 1, k))
    entry = np.empty((t + 1, k))
    logs = np.empty(max(m, k))
    terms = np.empty((max(m, k), k))
    room = np.empty((2, k))
    for r in range(low, high):
        g = r // each
        log_z = -np.inf
        if lengths[r] > 0:
            log_z = forward(segments[r], tables[g], start[g], end[g], lengths[r], alpha, entry, terms, room)
        for i in range(members.shape[0]):
            for c in range(t):
                for v in range(3):
                    members[i, r, c, v] = -1
            j = lengths[r] if log_z > -np.inf else 0
            count = 0
            label = -1
            while j > 0:
                for x in range(k):
                    logs[x] = alpha[j, x] + (end[g, x] if label < 0 else tables[g, x, label])
                label = _drawn(logs, k, uniforms[i, r, count, 0])
                for s in range(1, min(m, j) + 1):
                    logs[s - 1] = entry[j - s, label] + segments[r, j - s, s - 1, label]
                size = 1 + _drawn(logs, min(m, j), uniforms[i, r, count, 1])
                members[i, r, count, 0], members[i, r, count, 1], members[i, r, count, 2] = j - size, j, label
                count += 1
                j -= size
            turn_around(members[i, r], count)


@njit(nogil=True)
def _top_ends(segments: Any, entry: Any, j: int, y: int, scores: Any, ways: Any) -> None:
    """The best ways (size of the segment, rank of what is before it) to end at ``j`` with label ``y``."""
    width = scores.shape[0]
    n = 0
    for size in range(1, min(segments.shape[1], j) + 1):
        own = segments[j - size, size - 1, y]
        for rank in range(width):
            value = entry[j - size, y, rank] + own
            if value == -np.inf or (n == width and value <= scores[width - 1]):
                break
            n = place_way(scores, ways, n, value, size, rank, 0)
    for rank in range(n, width):
        scores[rank] = -np.inf


@jit("4", "d3", "d2", "d2", "i1", "i", "i", "i", "i4", "i1")
def top_rows(
    segments: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int, members: Any,
    found: Any,
) -> None:  # fmt: skip
    """Write the best segmentations of each row to ``[r, k]``, best first, and their number."""
    t = segments.shape[1]
    k = segments.shape[3]
    width = members.shape[1]
    # entry[j, y]: what may come before a segment from j on with label y; best[j, y]: with one that ends at j.
    entry = np.empty((t + 1, k, width))
    best = np.empty((t + 1, k, width))
    before = np.zeros((t + 1, k, width, 3), np.int64)
    last = np.zeros((t + 1, k, width, 3), np.int64)
    scores = np.empty(width)
    tops = np.zeros((width, 3), np.int64)
    for r in range(low, high):
        g = r // each
        n = lengths[r]
        members[r] = -1
        if n == 0:
            found[r] = 1
            continue
        entry[0] = -np.inf
        entry[0, :, 0] = start[g]
        for j in range(1, n + 1):
            for y in range(k):
                _top_ends(segments[r], entry, j, y, best[j, y], last[j, y])
            for y in range(k):
                top_of_lists(best[j], tables[g, :, y], entry[j, y], before[j, y])
        found[r] = top_of_lists(best[n], end[g], scores, tops)
        for rank in range(found[r]):
            j = n
            count = 0
            way = tops[rank]
            while j > 0:
                y = way[0]
                size, rest = last[j, y, way[1], 0], last[j, y, way[1], 1]
                members[r, rank, count, 0] = j - size
                members[r, rank, count, 1] = j
                members[r, rank, count, 2] = y
                count += 1
                j -= size
                way = before[j, y, rest]
            turn_around(members[r, rank], count)
