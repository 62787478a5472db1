"""Compiled loops for exact samples of non-projective trees, by one of two algorithms.

**By walks** (Wilson 1996): from each word walk up, each head sampled by its weight, to the tree so far; loops are
erased. This is fast, unless words lead to each other in circles for long. The expected number of steps is known
beforehand: the sum over words of 1 / p, where p is the probability never to return. If that is too large, a tree is
sampled

**by joining**: the last word's head is sampled by its exact probability, the word joins its head and adds its weights
as a head, and so on with one word less (Colbourn et al. 1996). It takes O(t⁴) for each sample, at any range of scores.

A single root is sampled first, by its probability; then the walks go up to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.floats import ZERO_EXPONENT, narrow, wide_sum
from catena.kernels.common.jit import SUMS, jit
from catena.kernels.dependency.cpu_eisner import level, weigh
from catena.kernels.dependency.cpu_matrix_tree import fill_upper, row_width
from catena.kernels.dependency.cpu_matrix_tree_wide import back_substitute, eliminate_word

_STEPS = 30.0
"""Walks are taken while their expected number of steps is below this times t²."""

# Steele et al. (2014): a counter, and a mixer of its bits.
STRIDE, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFT_30, SHIFT_27, SHIFT_31, SHIFT_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@njit(nogil=True)
def _uniform(state: Any) -> float:
    """The next number from 0 to 1, without 1."""
    state[0] += STRIDE
    z = state[0]
    z = (z ^ (z >> SHIFT_30)) * MIX_1
    z = (z ^ (z >> SHIFT_27)) * MIX_2
    return np.float64((z ^ (z >> SHIFT_31)) >> SHIFT_11) * 2.0**-53


@njit(nogil=True)
def _drawn(reach: Any, state: Any) -> int:
    """A place by running sums of weights, by halving."""
    low = 0
    high = reach.shape[0] - 1
    wanted = _uniform(state) * reach[high]
    while low < high:
        mid = (low + high) // 2
        if reach[mid] > wanted:
            high = mid
        else:
            low = mid + 1
    return low


# --- by walks -----------------------------------------------------------------------------------------------
@njit(nogil=True, fastmath=set(SUMS))
def _steps(w: Any, size: int, n: int, root: int, a: Any, q: Any, up: Any, plan: Any, losses: Any, ds: Any) -> float:
    """The expected number of steps of all walks up to ``root``; infinite if it exceeds the range of floats."""
    for m in range(n):
        for h in range(n):
            a[m * size + h] = 0.0 if m + 1 == root or h + 1 == root or h == m else w[h + 1, m + 1]
        a[m * size + n] = 1.0 if m + 1 == root else w[root, m + 1]
    if not fill_upper(a, q, size, n, True, up, plan, losses, ds)[1]:
        return np.inf
    steps = 0.0
    for m in range(n):
        if m + 1 != root:
            total, leaving = w[root, m + 1], w[root, m + 1]
            for h in range(n):
                if h + 1 != root:
                    total += w[h + 1, m + 1]
                    leaving += w[h + 1, m + 1] * up[h * size + m]
            steps += total / leaving if leaving > 0 else np.inf
    return steps


@njit(nogil=True)
def _walk_up(n: int, root: int, reach: Any, state: Any, heads: Any, inside: Any) -> None:
    """One tree by walks; ``reach[m]`` are the running sums of the weights of the heads of ``m``."""
    inside[: n + 1] = False
    inside[root] = True
    for start in range(1, n + 1):
        m = start
        while not inside[m]:
            heads[m - 1] = _drawn(reach[m], state)
            m = heads[m - 1]
        m = start
        while not inside[m]:
            inside[m] = True
            m = heads[m - 1]


# --- by joining ---------------------------------------------------------------------------------------------
@njit(nogil=True)
def _head_in_group(w: Any, group: Any, wanted: int, m: int, n: int, state: Any) -> int:
    """A head of ``m`` among the words that have joined one, by the weights of their own arcs."""
    total_m = 0.0
    total_e = ZERO_EXPONENT
    for h in range(n + 1):
        if group[h] == wanted and h != m:
            total_m, total_e = wide_sum(total_m, total_e, w[0][h, m], w[1][h, m])
    rest = _uniform(state)
    found = -1
    for h in range(n + 1):
        if group[h] == wanted and h != m and w[0][h, m] > 0:
            found = h
            rest -= narrow(w[0][h, m] / total_m, w[1][h, m] - total_e)
            if rest < 0:
                break
    return found


@njit(nogil=True)
def _drawn_group(a: Any, n: int, size: int, b: Any, up: Any, state: Any) -> int:
    """The row of the head of the last of ``size`` words, drawn by its probability. ``b`` and ``up`` are scratch."""
    last = size - 1
    for i in range(size + 1):
        row = i if i < size else n
        b[0][row, :size] = a[0][row, :size]
        b[1][row, :size] = a[1][row, :size]
    eliminate_word(b, n, 0, last, size, True, np.zeros(n, np.bool_))
    up[0][last, last] = 0.0
    up[1][last, last] = ZERO_EXPONENT
    up[0][n, last] = 1.0
    up[1][n, last] = 0
    back_substitute(b, n, 0, last, size, True, up)
    total_m = 0.0
    total_e = ZERO_EXPONENT
    for i in range(size + 1):
        row = i if i < size else n
        b[0][row, last] = a[0][row, last] * up[0][row, last]
        b[1][row, last] = a[1][row, last] + up[1][row, last]
        total_m, total_e = wide_sum(total_m, total_e, b[0][row, last], b[1][row, last])
    rest = _uniform(state)
    chosen = -1
    for i in range(size + 1):
        row = i if i < size else n
        if b[0][row, last] > 0 and rest >= 0:
            chosen = row
            rest -= narrow(b[0][row, last] / total_m, b[1][row, last] - total_e)
    return chosen


@njit(nogil=True)
def _join(w: Any, n: int, root: int, state: Any, a: Any, b: Any, up: Any, words: Any, group: Any, heads: Any) -> None:
    """One tree by joining. ``w`` are wide numbers; ``group[h]`` is the row of what ``h`` has joined, ``n`` the root."""
    size = 0
    group[: n + 1] = -1
    group[root] = n
    for m in range(1, n + 1):
        if m != root:
            words[size] = m
            group[m] = size
            size += 1
    for i in range(size):
        a[0][n, i] = w[0][root, words[i]]
        a[1][n, i] = w[1][root, words[i]]
        for j in range(size):
            a[0][j, i] = w[0][words[j], words[i]]
            a[1][j, i] = w[1][words[j], words[i]]
    for last in range(size - 1, -1, -1):
        chosen = _drawn_group(a, n, last + 1, b, up, state)
        heads[words[last] - 1] = _head_in_group(w, group, chosen, words[last], n, state)
        for h in range(n + 1):
            group[h] = chosen if group[h] == last else group[h]
        for k in range(last):
            a[0][chosen, k], a[1][chosen, k] = wide_sum(a[0][chosen, k], a[1][chosen, k], a[0][last, k], a[1][last, k])


@jit("3", "i1", "b", "i", "i", "2", "i2", "i3", "b2")
def walk_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, roots: Any, seeds: Any, heads: Any, left: Any
) -> None:
    """``heads[s, r]``: trees drawn by ``seeds[s, r]``, into what is -1 before; ``left``: where it would take too long.

    ``roots`` are the running sums of the probabilities of roots.
    """
    size = arcs.shape[1]
    depths = 1
    while 1 << (depths - 1) < size:
        depths += 1
    x, w, reach = np.empty((3, size, size))
    width = row_width(size)
    a = np.empty(depths * width * width)
    q = np.empty(depths * width * width)
    up = np.empty(width * width)
    ds = np.empty(size)
    losses = np.empty(depths)
    plan = np.empty((4 * size, 4), np.int64)
    steps = np.empty(size)
    inside = np.empty(size, np.bool_)
    state = np.empty(1, np.uint64)
    for r in range(low, high):
        n = lengths[r]
        level(arcs[r], n, single_root, x, ds)
        weigh(x, n, 0.0, False, w, plan)
        for m in range(1, n + 1):
            running = 0.0
            for h in range(n + 1):
                running += w[h, m] if h > 0 or not single_root else 0.0
                reach[m, h] = running
        steps[: n + 1] = -1.0
        for s in range(heads.shape[0] if roots[r, n] > 0 else 0):
            state[0] = seeds[s, r]
            root = _drawn(roots[r, : n + 1], state) if single_root else 0
            if steps[root] < 0:
                steps[root] = _steps(w, width, n, root, a, q, up, plan, losses, ds)
            left[s, r] = not steps[root] < _STEPS * n * n
            if not left[s, r]:
                _walk_up(n, root, reach[:, : n + 1], state, heads[s, r], inside)
                if single_root:
                    heads[s, r, root - 1] = 0


@jit("3", "i1", "b", "i", "i", "2", "i2", "i3", "b2")
def join_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, roots: Any, seeds: Any, heads: Any, left: Any
) -> None:
    """The trees that walks have left."""
    size = arcs.shape[1]
    x = np.empty((size, size))
    scratch = np.empty(size)
    state = np.empty(1, np.uint64)
    ms = np.empty((4, size, size))
    es = np.empty((4, size, size), np.int64)
    numbers = np.empty((2, size), np.int64)
    for r in range(low, high):
        n = lengths[r]
        level(arcs[r], n, single_root, x, scratch)
        weigh(x, n, 0.0, True, ms[3], es[3])
        for s in range(heads.shape[0]):
            if left[s, r]:
                state[0] = seeds[s, r]
                root = _drawn(roots[r, : n + 1], state) if single_root else 0
                charts = (ms[0], es[0]), (ms[1], es[1]), (ms[2], es[2])
                _join((ms[3], es[3]), n, root, state, *charts, numbers[0], numbers[1], heads[s, r])
                if single_root:
                    heads[s, r, root - 1] = 0
