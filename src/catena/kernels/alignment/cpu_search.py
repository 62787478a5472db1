"""Compiled loops for the best alignments, the k best, and samples. Backtracking recomputes its choices.

The loops only use float64, so that they are compiled once. Alignments are lists of operations: 0 substitutes, 1
inserts, 2 deletes, and -1 fills the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.alignment.cpu import FUSED, ROWS, forward
from catena.kernels.common.jit import jit, jit_function


@jit_function()
def move_to_front(operations: Any, n: int) -> None:
    """A list that was written from its end: its ``n`` operations lie at the end, and are to lie in front."""
    width = operations.shape[0]
    for place in range(n):
        operations[place] = operations[width - n + place]
    for place in range(n, width):
        operations[place] = -1


@jit_function()
def _column(scores: Any, j: int) -> int:
    return j if scores.shape[2] > 1 else 0


@jit_function()
def _row(scores: Any, i: int) -> int:
    return i if scores.shape[1] > 1 else 0


@jit_function()
def _best_points(substitutions: Any, insertions: Any, deletions: Any, r: int, n: int, m: int, best: Any) -> None:
    """``best[i, j]``: the score of the best way to each point."""
    for i in range(n + 1):
        a = _row(insertions, i)
        for j in range(m + 1):
            best[i, j] = -np.inf
        if i == 0:
            best[0, 0] = 0.0
        else:
            for j in range(m):
                best[i, j + 1] = best[i - 1, j] + substitutions[r, i - 1, j]
            for j in range(m + 1):
                value = best[i - 1, j] + deletions[r, i - 1, _column(deletions, j)]
                best[i, j] = value if value > best[i, j] else best[i, j]
        top = best[i, 0]
        for j in range(m):
            top += insertions[r, a, j]
            top = top if top > best[i, j + 1] else best[i, j + 1]
            best[i, j + 1] = top


@jit("d3", "d3", "d3", "i1", "i1", "i", "i", "i2")
def best_rows(
    substitutions: Any, insertions: Any, deletions: Any, n_source: Any, n_target: Any, low: int, high: int,
    operations: Any,
) -> None:  # fmt: skip
    """The best alignment of each row; -1 behind its last operation and where none is possible."""
    s, t = substitutions.shape[1:]
    best = np.empty((s + 1, t + 1))
    for r in range(low, high):
        i = n_source[r]
        j = n_target[r]
        place = s + t
        _best_points(substitutions, insertions, deletions, r, i, j, best)
        if best[i, j] == -np.inf:
            operations[r, :] = -1
            continue
        while i > 0 or j > 0:
            place -= 1
            if i > 0 and j > 0 and best[i - 1, j - 1] + substitutions[r, i - 1, j - 1] == best[i, j]:
                operations[r, place] = 0
                i = i - 1
                j = j - 1
            elif j > 0 and best[i, j - 1] + insertions[r, _row(insertions, i), j - 1] == best[i, j]:
                operations[r, place] = 1
                j -= 1
            else:
                operations[r, place] = 2
                i -= 1
        move_to_front(operations[r], s + t - place)


@jit_function()
def _ranked(
    substitutions: Any, insertions: Any, deletions: Any, r: int, i: int, j: int, best: Any, scores: Any, ways: Any
) -> int:  # fmt: skip
    """The best ways (operation, rank before it) to a point, best first, and how many there are: three lists merged."""
    heads = np.zeros(3, np.int64)
    gains = np.empty(3)
    k = scores.shape[0]
    gains[0] = substitutions[r, i - 1, j - 1] if i > 0 and j > 0 else -np.inf
    gains[1] = insertions[r, _row(insertions, i), j - 1] if j > 0 else -np.inf
    gains[2] = deletions[r, i - 1, _column(deletions, j)] if i > 0 else -np.inf
    for rank in range(k):
        top = -np.inf
        choice = -1
        for way in range(3):
            if gains[way] > -np.inf and heads[way] < k:
                a = i - (way != 1)
                b = j - (way != 2)
                value = best[a, b, heads[way]] + gains[way]
                if value > top:
                    top = value
                    choice = way
        if choice < 0:
            return rank
        scores[rank] = top
        ways[rank, 0], ways[rank, 1] = choice, heads[choice]
        heads[choice] += 1
    return k


@jit("d3", "d3", "d3", "i1", "i1", "i", "i", "i3", "i1")
def top_rows(
    substitutions: Any, insertions: Any, deletions: Any, n_source: Any, n_target: Any, low: int, high: int,
    operations: Any, found: Any,
) -> None:  # fmt: skip
    """The best alignments of each row into ``operations[r, n]``, best first, and how many there are."""
    s, t = substitutions.shape[1:]
    k = operations.shape[1]
    best = np.empty((s + 1, t + 1, k))
    scores = np.empty(k)
    ways = np.empty((k, 2), np.int64)
    for r in range(low, high):
        n = n_source[r]
        m = n_target[r]
        for i in range(n + 1):
            for j in range(m + 1):
                count = 1
                scores[0] = 0.0
                if i > 0 or j > 0:
                    count = _ranked(substitutions, insertions, deletions, r, i, j, best, scores, ways)
                for rank in range(k):
                    best[i, j, rank] = scores[rank] if rank < count else -np.inf
        found[r] = 0
        operations[r, :, :] = -1
        while found[r] < k and best[n, m, found[r]] > -np.inf:
            i = n
            j = m
            rank = found[r]
            place = s + t
            while i > 0 or j > 0:
                _ranked(substitutions, insertions, deletions, r, i, j, best, scores, ways)
                place -= 1
                way, rank = ways[rank, 0], ways[rank, 1]
                operations[r, found[r], place] = way
                i = i - (way != 1)
                j = j - (way != 2)
            move_to_front(operations[r, found[r]], s + t - place)
            found[r] += 1


@jit("d3", "d3", "d3", "i1", "i1", "i", "i", "d3", "i3", fastmath=FUSED)
def sample_rows(
    substitutions: Any, insertions: Any, deletions: Any, n_source: Any, n_target: Any, low: int, high: int,
    uniforms: Any, operations: Any,
) -> None:  # fmt: skip
    """``operations[n, r]``: alignments drawn by ``uniforms[n, r]``, a number for each operation, the last one first."""
    s, t = substitutions.shape[1:]
    w = np.zeros((ROWS, t + 1))
    shares = np.empty((3, s + 1, t + 1))
    for r in range(low, high):
        log_z = forward(substitutions, insertions, deletions, r, n_source[r], n_target[r], True, w, shares)
        for n in range(operations.shape[0]):
            i = n_source[r]
            j = n_target[r]
            place = s + t
            while (i > 0 or j > 0) and log_z > -np.inf:
                place -= 1
                # The fractions sum to 1 up to rounding; the last one above 0 takes the rest.
                way = 0
                left = uniforms[n, r, place] - shares[0, i, j]
                for o in range(1, 3):
                    if left >= 0 and shares[o, i, j] > 0:
                        way = o
                        left -= shares[o, i, j]
                operations[n, r, place] = way
                i = i - (way != 1)
                j = j - (way != 2)
            move_to_front(operations[n, r], s + t - place)
