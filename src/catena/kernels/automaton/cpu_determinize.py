"""Sets of states with residual weights: the subset construction of weighted machines.

Arcs are sorted by source, label and target. Sets are numbered in the order in which they are found, breadth
first, and expanded in that order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64, njit

from catena.kernels.common.jit import DOUBLES, LONGS, lazy_jit

LOGS, MAXIMA, REALS = 0, 1, 2
"""What ⊕ is: log-sum-exp, max, or +. Boolean machines go as maxima of 0 and -inf, tropical ones negated."""

_FREE = -1
_GREATEST = 2.0**62


@njit(nogil=True)
def _plus(kind: int, a: float, b: float) -> float:
    if kind == REALS:
        return a + b
    high = max(a, b)
    low = min(a, b)
    if kind == MAXIMA or low == -np.inf:
        return high
    return high + np.log1p(np.exp(low - high))


@njit(nogil=True)
def _times(kind: int, a: float, b: float) -> float:
    return a * b if kind == REALS else a + b


@njit(nogil=True)
def _divided(kind: int, a: float, b: float) -> float:
    if kind == REALS:
        return a if b == 0.0 else a / b
    return a if np.isinf(b) else a - b


@njit(nogil=True)
def _rounded(x: float, tolerance: float) -> Any:
    return np.int64(np.rint(min(max(x / tolerance, -_GREATEST), _GREATEST)))


@njit(nogil=True)
def _room(x: Any, n: int) -> Any:
    """The array itself if it is longer than n, else a copy with capacity for 2 n."""
    if n < len(x):
        return x
    larger = np.empty(2 * n + 2, x.dtype)
    larger[: len(x)] = x
    return larger


@njit(nogil=True)
def _hash(states: Any, keys: Any, low: int, high: int) -> int:
    found = 0
    for i in range(low, high):
        found = (found ^ states[i]) * 0x9E3779B97F4A7C1
        found = (found ^ (found >> 29) ^ keys[i]) * 0x9E3779B97F4A7C1
    return found ^ (found >> 31)


@njit(nogil=True)
def _slot(table: Any, starts: Any, states: Any, keys: Any, low: int, high: int) -> int:
    """Where the set at ``low … high`` is in the hash table, or may be put."""
    place = _hash(states, keys, low, high) & (len(table) - 1)
    while table[place] != _FREE:
        first, past = starts[table[place]], starts[table[place] + 1]
        same = past - first == high - low
        for i in range(high - low if same else 0):
            if states[first + i] != states[low + i] or keys[first + i] != keys[low + i]:
                same = False
                break
        if same:
            return place
        place = (place + 1) & (len(table) - 1)
    return place


@njit(nogil=True)
def _rehashed(table: Any, starts: Any, states: Any, keys: Any, n: int) -> Any:
    larger = np.full(2 * len(table), _FREE, np.int64)
    for s in range(n):
        larger[_slot(larger, starts, states, keys, starts[s], starts[s + 1])] = s
    return larger


@njit(nogil=True)
def _gathered(
    kind: int, n: int, low: int, high: int, states: Any, residuals: Any, arc_starts: Any, labels: Any, targets: Any,
    weights: Any, ways: Any, owed: Any,
) -> int:  # fmt: skip
    """(label · n + target) and the weight owed for all arcs of a set, sorted, each pair once; their number."""
    found = 0
    sorted_already = True
    for e in range(low, high):
        for i in range(arc_starts[states[e]], arc_starts[states[e] + 1]):
            ways[found] = labels[i] * n + targets[i]
            owed[found] = _times(kind, residuals[e], weights[i])
            sorted_already = sorted_already and (found == 0 or ways[found - 1] <= ways[found])
            found += 1
    if not sorted_already:
        order = np.argsort(ways[:found], kind="mergesort")
        ways[:found] = ways[:found][order]
        owed[:found] = owed[:found][order]
    distinct = 0
    for i in range(found):
        if distinct > 0 and ways[i] == ways[distinct - 1]:
            owed[distinct - 1] = _plus(kind, owed[distinct - 1], owed[i])
        else:
            ways[distinct] = ways[i]
            owed[distinct] = owed[i]
            distinct += 1
    return distinct


@njit(nogil=True)
def _set_room(states: Any, residuals: Any, keys: Any, size: int) -> Any:
    return _room(states, size), _room(residuals, size), _room(keys, size)


@lazy_jit(LONGS, LONGS, LONGS, DOUBLES, DOUBLES, LONGS, DOUBLES, int64, float64, int64)
def determinize_graph(
    arc_starts: Any, labels: Any, targets: Any, weights: Any, final: Any, begin_states: Any, begin_residuals: Any,
    kind: int, tolerance: float, limit: int,
) -> Any:  # fmt: skip
    """The sets of states that can be reached, and the arcs between them.

    Args:
        labels: numbers from 0, times the number of states below 2^62.
        begin_states: the first set; the residual weights of its states are divided by their sum already.
        tolerance: residual weights that round to the same multiple of it are equal.
        limit: the greatest number of sets.

    Returns (source, label, target, weight of each arc, final weight of each set); no sets beyond the limit.
    """
    n = len(arc_starts) - 1
    zero = 0.0 if kind == REALS else -np.inf
    table = np.full(1024, _FREE, np.int64)
    starts = np.zeros(256, np.int64)
    ends = np.empty(256)
    states = np.empty(256, np.int64)
    residuals = np.empty(256)
    keys = np.empty(256, np.int64)
    arcs = np.empty(768, np.int64)
    paid_all = np.empty(256)
    n_arcs = 0
    ways = np.empty(64, np.int64)
    owed = np.empty(64)
    used = len(begin_states)
    states, residuals, keys = _set_room(states, residuals, keys, used)
    for i in range(used):
        states[i] = begin_states[i]
        residuals[i] = begin_residuals[i]
        keys[i] = _rounded(begin_residuals[i], tolerance)
    starts[1] = used
    n_sets = 1
    here = 0
    table[_slot(table, starts, states, keys, 0, used)] = 0
    while here < n_sets:
        low = starts[here]
        high = starts[here + 1]
        most = 0
        end = zero
        for e in range(low, high):
            end = _plus(kind, end, _times(kind, residuals[e], final[states[e]]))
            most += arc_starts[states[e] + 1] - arc_starts[states[e]]
        ends = _room(ends, here)
        ends[here] = end
        ways = _room(ways, most)
        owed = _room(owed, most)
        most = _gathered(kind, n, low, high, states, residuals, arc_starts, labels, targets, weights, ways, owed)
        i = 0
        while i < most:
            label = ways[i] // n
            paid = zero
            j = i
            while j < most and ways[j] // n == label:
                paid = _plus(kind, paid, owed[j])
                j += 1
            past = used + j - i
            states, residuals, keys = _set_room(states, residuals, keys, past)
            for k in range(j - i):
                states[used + k] = ways[i + k] % n
                residuals[used + k] = _divided(kind, owed[i + k], paid)
                keys[used + k] = _rounded(residuals[used + k], tolerance)
            place = _slot(table, starts, states, keys, used, past)
            target = table[place]
            if target == _FREE:
                if n_sets == limit:
                    return arcs[:0], arcs[:0], arcs[:0], paid_all[:0], ends[:0]
                target = table[place] = n_sets
                starts = _room(starts, n_sets + 1)
                n_sets = n_sets + 1
                used = past
                starts[n_sets] = past
                if 2 * n_sets >= len(table):
                    table = _rehashed(table, starts, states, keys, n_sets)
            arcs = _room(arcs, 3 * n_arcs + 2)
            paid_all = _room(paid_all, n_arcs)
            arcs[3 * n_arcs], arcs[3 * n_arcs + 1], arcs[3 * n_arcs + 2] = here, label, target
            paid_all[n_arcs] = paid
            n_arcs = n_arcs + 1
            i = j
        here += 1
    rows = arcs[: 3 * n_arcs].reshape(n_arcs, 3)
    return rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy(), paid_all[:n_arcs].copy(), ends[:n_sets].copy()
