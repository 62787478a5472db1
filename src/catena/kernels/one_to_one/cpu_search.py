"""Compiled loops for the k best one-to-one alignments and samples. Backtracking recomputes its choices.

The loops only use float64, so that they are compiled once. Alignments are written as the partner of each source
position, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.alignment.cpu import FUSED
from catena.kernels.common.jit import jit, jit_function
from catena.kernels.one_to_one.cpu import AHEAD_SHARE, DROPPED, PAIRED, PUT_SHARE, ROWS, WAYS, forward


@jit_function()
def _merge(a: Any, to_a: float, b: Any, to_b: float, scores: Any, ways: Any) -> int:
    """The best of two falling lists with a gain added to each: (which list, which rank), best first, and how many."""
    heads_a = heads_b = 0
    width = scores.shape[0]
    for rank in range(width):
        first = a[heads_a] + to_a if heads_a < width else -np.inf
        second = b[heads_b] + to_b if heads_b < width else -np.inf
        if first == -np.inf and second == -np.inf:
            return rank
        if first >= second:
            scores[rank] = first
            ways[rank, 0] = 0
            ways[rank, 1] = heads_a
            heads_a += 1
        else:
            scores[rank] = second
            ways[rank, 0] = 1
            ways[rank, 1] = heads_b
            heads_b += 1
    return width


@jit_function()
def _merge_ahead(scores: Any, target_gaps: Any, r: int, i: int, j: int, best: Any, values: Any, ways: Any) -> int:
    """The best ways to be ahead at a point: 0 by a pair from above left, 1 over a target position from the left."""
    if i == 0:
        return _merge(best[1, 0, j - 1], -np.inf, best[1, 0, j - 1], target_gaps[r, j - 1], values, ways)
    return _merge(
        best[0, i - 1, j - 1], scores[r, i - 1, j - 1], best[1, i, j - 1], target_gaps[r, j - 1], values, ways
    )


@jit_function()
def _merge_here(source_gaps: Any, r: int, i: int, j: int, best: Any, values: Any, ways: Any) -> int:
    """The best ways to a point: 0 from what is ahead there, 1 by leaving the source position over."""
    if i == 0:
        return _merge(best[1, 0, j], 0.0, best[1, 0, j], -np.inf, values, ways)
    return _merge(best[1, i, j], 0.0, best[0, i - 1, j], source_gaps[r, i - 1], values, ways)


@jit_function()
def _fill(values: Any, count: int, result: Any) -> None:
    for rank in range(result.shape[0]):
        result[rank] = values[rank] if rank < count else -np.inf


@jit_function()
def _best_points(
    scores: Any, source_gaps: Any, target_gaps: Any, r: int, n: int, m: int, best: Any, values: Any, ways: Any
) -> None:  # fmt: skip
    """``best[0, i, j]`` and ``best[1, i, j]``: the scores of the best ways to a point, and to be ahead there."""
    for i in range(n + 1):
        for j in range(m + 1):
            count = 0
            if j > 0:
                count = _merge_ahead(scores, target_gaps, r, i, j, best, values, ways)
            elif i == 0:
                values[0] = 0.0
                count = 1
            _fill(values, count, best[1, i, j])
            _fill(values, _merge_here(source_gaps, r, i, j, best, values, ways), best[0, i, j])


@jit("d3", "d2", "d2", "i1", "i1", "i", "i", "i3", "i1")
def top_rows(
    scores: Any, source_gaps: Any, target_gaps: Any, n_source: Any, n_target: Any, low: int, high: int, partners: Any,
    found: Any,
) -> None:  # fmt: skip
    """The best alignments of each row into ``partners[r, n]``, best first, and how many there are."""
    s, t = scores.shape[1:]
    width = partners.shape[1]
    best = np.empty((2, s + 1, t + 1, width))
    values = np.empty(width)
    ways = np.empty((width, 2), np.int64)
    for r in range(low, high):
        n = n_source[r]
        m = n_target[r]
        _best_points(scores, source_gaps, target_gaps, r, n, m, best, values, ways)
        partners[r, :, :] = -1
        found[r] = 0
        while found[r] < width and best[0, n, m, found[r]] > -np.inf:
            i = n
            j = m
            rank = found[r]
            ahead = False
            while i > 0:
                if ahead:
                    _merge_ahead(scores, target_gaps, r, i, j, best, values, ways)
                else:
                    _merge_here(source_gaps, r, i, j, best, values, ways)
                way, rank = ways[rank, 0], ways[rank, 1]
                if ahead and way == 0:
                    partners[r, found[r], i - 1] = j - 1
                    i = i - 1
                    j = j - 1
                    ahead = False
                elif ahead:
                    j -= 1
                elif way == 0:
                    ahead = True
                else:
                    i -= 1
            found[r] += 1


@jit("d3", "d2", "d2", "i1", "i1", "i", "i", "d3", "i3", fastmath=FUSED)
def sample_rows(
    scores: Any, source_gaps: Any, target_gaps: Any, n_source: Any, n_target: Any, low: int, high: int, uniforms: Any,
    partners: Any,
) -> None:  # fmt: skip
    """``partners[n, r]``: alignments drawn by ``uniforms[n, r]``, one number for each choice, the last one first."""
    s, t = scores.shape[1:]
    w = np.zeros((ROWS, t + 1))
    shares = np.empty((WAYS, s + 1, t + 1))
    for r in range(low, high):
        log_z = forward(scores, source_gaps, target_gaps, r, n_source[r], n_target[r], True, w, shares)
        partners[:, r, :] = -1
        for n in range(partners.shape[0] if log_z > -np.inf else 0):
            i = n_source[r]
            j = n_target[r]
            drawn = 0
            ahead = False
            while i > 0:
                first, second = (PAIRED, PUT_SHARE) if ahead else (AHEAD_SHARE, DROPPED)
                a, b = shares[first, i, j], shares[second, i, j]
                takes_second = b > 0 and (a == 0 or uniforms[n, r, drawn] >= a)
                drawn += 1
                if ahead and not takes_second:
                    partners[n, r, i - 1] = j - 1
                    i = i - 1
                    j = j - 1
                    ahead = False
                elif ahead:
                    j -= 1
                elif takes_second:
                    i -= 1
                else:
                    ahead = True
