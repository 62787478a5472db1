"""Counting more n-grams than memory holds: sorted runs, merged two by two, and the trie grown from the last one.

A row of a run is an n-gram of the greatest length, filled up with 0 behind the end of its sentence, and its count.
"""

from __future__ import annotations

from typing import Any

from numba import int64

from catena.kernels.array_types import INTS, LONGS
from catena.kernels.jit import lazy_jit


@lazy_jit(INTS, INTS, int64, int64, INTS)
def distinct_rows(tokens: Any, positions: Any, order: int, end: int, rows: Any) -> int:
    """The different n-grams at sorted positions, with their counts. Returns how many there are."""
    width, n = order + 1, 0
    for p in positions:
        row, same, ended = n * width, n > 0, False
        for d in range(order):
            rows[row + d] = 0 if ended else tokens[p + d]
            ended = ended or tokens[p + d] == end
            same = same and rows[row + d] == rows[row - width + d]
        if same:
            rows[row - 1] += 1
        else:
            rows[row + order] = 1
            n += 1
    return n


@lazy_jit(INTS, INTS, LONGS, int64, INTS)
def merge_rows(a: Any, b: Any, at: Any, width: int, out: Any) -> None:
    """Merge sorted rows until one side is used up or the output is full; counts of equal rows are added.

    ``at`` is where the loop is, and is left: [row of a, row of b, row of out, rows of a, rows of b, capacity of out].
    """
    i, j, n = at[0], at[1], at[2]
    while i < at[3] and j < at[4] and n < at[5]:
        side = 0
        for d in range(width - 1):
            x, y = a[i * width + d], b[j * width + d]
            if x != y:
                side = -1 if x < y else 1
                break
        for d in range(width - 1):
            out[n * width + d] = a[i * width + d] if side <= 0 else b[j * width + d]
        out[n * width + width - 1] = 0
        if side <= 0:
            out[n * width + width - 1] += a[i * width + width - 1]
            i += 1
        if side >= 0:
            out[n * width + width - 1] += b[j * width + width - 1]
            j += 1
        n += 1
    at[0], at[1], at[2] = i, j, n


@lazy_jit(INTS, int64, int64, int64, INTS, INTS, INTS, LONGS)
def build_levels(rows: Any, n: int, order: int, end: int, before: Any, pending: Any, nodes: Any, filled: Any) -> None:
    """The nodes of each length that sorted rows make, as (word, count, children).

    Args:
        before: the row before these, -1 in all places at the beginning.
        pending: for each length, the node that is not finished, as nodes are, with word -1 where there is none.
        nodes: buffer of n + 1 finished nodes of each length.
        filled: how many finished nodes of each length there are.
    """
    width, room = order + 1, n + 1
    for row in range(n):
        base = row * width
        depth = 1
        while depth < order and rows[base + depth - 1] != end:
            depth += 1
        same = 0
        while same < depth and rows[base + same] == before[same]:
            same += 1
        for k in range(same + 1, depth + 1):
            if pending[3 * k] >= 0:
                place = 3 * (k * room + filled[k])
                nodes[place], nodes[place + 1], nodes[place + 2] = (
                    pending[3 * k],
                    pending[3 * k + 1],
                    pending[3 * k + 2],
                )
                filled[k] += 1
            pending[3 * k], pending[3 * k + 1], pending[3 * k + 2] = rows[base + k - 1], 0, 0
            pending[3 * (k - 1) + 2] += 1
        for k in range(1, depth + 1):
            pending[3 * k + 1] += rows[base + order]
        for d in range(order):
            before[d] = rows[base + d]
