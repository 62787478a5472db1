r"""Alignments of two strings by units: pieces of the one, of at most a few symbols, with pieces of the other.

A move (a, b) takes a symbols of the source and b of the target. A unit is such a pair of pieces; its key is their ids
(from 1; 0 where a piece is shorter) as the digits of one number. The units of a corpus stand in a table of hashes.

.. math::  p(x, y) = \sum_{\text{segmentations of } x, y} \prod_{u} p(u)

All numbers are logarithms. Time O(|x| |y| moves) for each pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.floats import log_add
from catena.kernels.common.jit import DOUBLES, INTS, LONGS, lazy_jit

FREE = -1
"""The key of an empty place of a table."""


@njit(nogil=True, inline="always")
def _place(table: Any, key: Any) -> Any:
    """Where a key stands, or would stand. The size of the table is a power of two."""
    last = len(table) - 1
    i = ((key * 0x9E3779B97F4A7C1) >> 20) & last
    while table[i] != FREE and table[i] != key:
        i = (i + 1) & last
    return i


@njit(nogil=True, inline="always")
def _key(x: Any, i: Any, a: Any, y: Any, j: Any, b: Any, base_x: Any, most_x: Any, base_y: Any, most_y: Any) -> Any:
    """The unit of x[i : i + a] and y[j : j + b]."""
    key = np.int64(0)
    for k in range(most_x):
        key = key * base_x + (x[i + k] if k < a else 0)
    for k in range(most_y):
        key = key * base_y + (y[j + k] if k < b else 0)
    return key


@lazy_jit(INTS, LONGS, INTS, LONGS, LONGS, LONGS, LONGS, LONGS, int64)
def collect_units(
    xs: Any, x_ends: Any, ys: Any, y_ends: Any, take: Any, give: Any, sizes: Any, table: Any, most: int
) -> int:
    """Enter every unit that some segmentation of a pair may use into an empty table; their number.

    Stops with -1 where there are more than ``most``. ``sizes`` are (base of x, longest piece of x, those of y).
    """
    n = 0
    for r in range(len(x_ends)):
        x0 = x_ends[r - 1] if r else 0
        x1 = x_ends[r]
        y0 = y_ends[r - 1] if r else 0
        y1 = y_ends[r]
        x = xs[x0:x1]
        y = ys[y0:y1]
        for i in range(len(x) + 1):
            for j in range(len(y) + 1):
                for k in range(len(take)):
                    a = take[k]
                    b = give[k]
                    if i + a <= len(x) and j + b <= len(y):
                        key = _key(x, i, a, y, j, b, sizes[0], sizes[1], sizes[2], sizes[3])
                        p = _place(table, key)
                        if table[p] == FREE:
                            if n == most:
                                return -1
                            table[p] = key
                            n += 1
    return n


@njit(nogil=True)
def _fill(x: Any, y: Any, take: Any, give: Any, sizes: Any, table: Any, log_probs: Any, places: Any, alpha: Any) -> Any:
    """Places of the units of all cells, and the log-sum of all ways to each cell."""
    n = len(x)
    m = len(y)
    moves = len(take)
    for i in range(n + 1):
        for j in range(m + 1):
            total = 0.0 if i == 0 and j == 0 else -np.inf
            for k in range(moves):
                a = take[k]
                b = give[k]
                if i >= a and j >= b:
                    key = _key(x, i - a, a, y, j - b, b, sizes[0], sizes[1], sizes[2], sizes[3])
                    p = _place(table, key)
                    places[(i * (m + 1) + j) * moves + k] = p
                    before = alpha[(i - a) * (m + 1) + j - b]
                    if before > -np.inf and log_probs[p] > -np.inf:
                        total = log_add(total, before + log_probs[p])
            alpha[i * (m + 1) + j] = total
    return alpha[n * (m + 1) + m]


@lazy_jit(INTS, LONGS, INTS, LONGS, LONGS, LONGS, LONGS, LONGS, DOUBLES, int64, int64, DOUBLES, DOUBLES)
def expected_counts(
    xs: Any, x_ends: Any, ys: Any, y_ends: Any, take: Any, give: Any, sizes: Any, table: Any, log_probs: Any,
    low: int, high: int, counts: Any, totals: Any,
) -> None:  # fmt: skip
    """Add the expected number of each unit in the pairs low … high - 1; ``totals[r]`` becomes log p of pair r."""
    room = 0
    moves = len(take)
    for r in range(low, high):
        n = x_ends[r] - (x_ends[r - 1] if r else 0)
        m = y_ends[r] - (y_ends[r - 1] if r else 0)
        room = max(room, (n + 1) * (m + 1))
    places = np.empty(room * moves, np.int64)
    alpha = np.empty(room)
    beta = np.empty(room)
    for r in range(low, high):
        x = xs[(x_ends[r - 1] if r else 0) : x_ends[r]]
        y = ys[(y_ends[r - 1] if r else 0) : y_ends[r]]
        n = len(x)
        m = len(y)
        log_z = totals[r] = _fill(x, y, take, give, sizes, table, log_probs, places, alpha)
        if log_z == -np.inf:
            continue
        for c in range((n + 1) * (m + 1)):
            beta[c] = -np.inf
        beta[n * (m + 1) + m] = 0.0
        for i in range(n, -1, -1):
            for j in range(m, -1, -1):
                cell = i * (m + 1) + j
                onward = beta[cell]
                if onward == -np.inf or alpha[cell] == -np.inf:
                    continue
                for k in range(moves):
                    a = take[k]
                    b = give[k]
                    if i >= a and j >= b:
                        p = places[cell * moves + k]
                        before = (i - a) * (m + 1) + j - b
                        if alpha[before] > -np.inf and log_probs[p] > -np.inf:
                            way = log_probs[p] + onward
                            beta[before] = log_add(beta[before], way)
                            counts[p] += np.exp(alpha[before] + way - log_z)


@lazy_jit(INTS, LONGS, INTS, LONGS, LONGS, LONGS, LONGS, LONGS, DOUBLES, int64, int64, LONGS, LONGS)
def best(
    xs: Any, x_ends: Any, ys: Any, y_ends: Any, take: Any, give: Any, sizes: Any, table: Any, log_probs: Any,
    low: int, high: int, found: Any, lengths: Any,
) -> None:  # fmt: skip
    """The places of the units of the best segmentation of the pairs low … high - 1, and how many there are.

    Those of pair r begin at ``x_ends[r - 1] + y_ends[r - 1]`` of ``found``, for no segmentation has more units than
    symbols; ``lengths[r]`` is -1 where there is none.
    """
    room = 0
    moves = len(take)
    for r in range(low, high):
        n = x_ends[r] - (x_ends[r - 1] if r else 0)
        m = y_ends[r] - (y_ends[r - 1] if r else 0)
        room = max(room, (n + 1) * (m + 1))
    score = np.empty(room)
    last = np.empty(room, np.int64)
    by = np.empty(room, np.int64)
    for r in range(low, high):
        x0 = x_ends[r - 1] if r else 0
        y0 = y_ends[r - 1] if r else 0
        x = xs[x0 : x_ends[r]]
        y = ys[y0 : y_ends[r]]
        n = len(x)
        m = len(y)
        for i in range(n + 1):
            for j in range(m + 1):
                cell = i * (m + 1) + j
                score[cell] = 0.0 if cell == 0 else -np.inf
                last[cell] = -1
                for k in range(moves):
                    a = take[k]
                    b = give[k]
                    if i >= a and j >= b:
                        p = _place(table, _key(x, i - a, a, y, j - b, b, sizes[0], sizes[1], sizes[2], sizes[3]))
                        new = score[(i - a) * (m + 1) + j - b] + log_probs[p]
                        if new > score[cell]:
                            score[cell] = new
                            last[cell] = p
                            by[cell] = k
        cell = n * (m + 1) + m
        if score[cell] == -np.inf:
            lengths[r] = -1
            continue
        count = 0
        i = n
        j = m
        while i or j:
            cell = i * (m + 1) + j
            found[x0 + y0 + count] = last[cell]
            i = i - take[by[cell]]
            j = j - give[by[cell]]
            count += 1
        for k in range(count // 2):
            left = x0 + y0 + k
            right = x0 + y0 + count - 1 - k
            found[left], found[right] = found[right], found[left]
        lengths[r] = count
