r"""Distances in a weighted graph: log-sum-exp or maximum over all paths from the start to every state.

Components are done in topological order. Inside a component with a cycle,

* the best is found by relaxing arcs until nothing changes (Bellman 1958), and a cycle of score above 0 is
  found out because something still does;
* the sum solves :math:`x = b + x W`. Weights are first scaled by the best scores h,
  :math:`W'_{ij} = \exp(w_{ij} + h_i - h_j) \le 1`, so that the best path to every state weighs 1: what
  underflows could not have been seen in the result. Elimination without pivoting subtracts only in
  :math:`1 - W'_{kk}`, which is above 0 for all k if and only if the sum converges.

All numbers are float64, whatever the machine's are. Scores of nan and +inf are reported, never summed: a comparison
with nan is false, so that a nan would count as impossible.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import float64, int64, njit

from catena.kernels.common.jit import DOUBLES, LONGS, lazy_jit

_EPSILON = 2.0**-52
INVALID = -2
"""Returned in place of a state where a score is nan or +inf."""


@njit(nogil=True)
def _n_invalid(scores: Any) -> int:
    """The number of scores that are nan or +inf."""
    n = 0
    for i in range(len(scores)):
        n += not scores[i] < np.inf
    return n


@njit(nogil=True)
def _log_add(values: Any, n: int) -> float:
    top = -np.inf
    for i in range(n):
        top = max(top, values[i])
    if top == -np.inf or top == np.inf:
        return top
    mass = 0.0
    for i in range(n):
        mass += np.exp(values[i] - top)
    return top + np.log(mass)


@njit(nogil=True)
def _arrivals(
    q: int, weight: Any, begins: Any, source: Any, starts: Any, arcs: Any, component: Any, distance: Any, terms: Any
) -> int:
    """The weights of all ways into ``q`` from other components, written to ``terms``; their number."""
    terms[0] = begins[q]
    n = 1
    for j in range(starts[q], starts[q + 1]):
        arc = arcs[j]
        p = source[arc]
        if component[p] != component[q]:
            terms[n] = distance[p] + weight[arc]
            n += 1
    return n


@njit(nogil=True)
def _beats(new: float, old: float, last: float) -> bool:
    """Whether a score is better by more than rounding: a cycle that adds up to 0 may come out above it."""
    if old == -np.inf:
        return new > -np.inf
    return new > old + 4 * _EPSILON * max(abs(old), abs(last))


@njit(nogil=True)
def _relaxed(
    states: Any, weight: Any, source: Any, starts: Any, arcs: Any, component: Any, best: Any, through: Any
) -> int:
    """Best scores inside a cyclic component, given scores from outside; ``through[q]`` is set to the last arc.

    Returns the state after a cycle of score above 0, or -1.
    """
    for _ in range(len(states) + 1):
        changed = -1
        for q in states:
            for j in range(starts[q], starts[q + 1]):
                arc = arcs[j]
                p = source[arc]
                if component[p] == component[q] and _beats(best[p] + weight[arc], best[q], weight[arc]):
                    best[q] = best[p] + weight[arc]
                    through[q] = arc
                    changed = q
        if changed < 0:
            return -1
    return changed


@njit(nogil=True)
def _solved(
    states: Any, place: Any, weight: Any, source: Any, starts: Any, arcs: Any, component: Any, h: Any, distance: Any
) -> int:
    """Sums inside a cyclic component. ``distance`` holds those of coming from outside, and becomes the whole.

    Returns a state through which the sum diverges, or -1.
    """
    m = len(states)
    W = np.zeros((m, m))
    b = np.zeros(m)
    size = 1.0
    for k in range(m):
        q = states[k]
        if h[q] == -np.inf:
            continue
        b[k] = np.exp(distance[q] - h[q])
        for j in range(starts[q], starts[q + 1]):
            arc = arcs[j]
            p = source[arc]
            if component[p] == component[q] and h[p] > -np.inf and weight[arc] > -np.inf:
                W[place[p], k] += np.exp(weight[arc] + h[p] - h[q])
                size = max(size, abs(weight[arc]), abs(h[p]), abs(h[q]))
    least = 8 * _EPSILON * (m + size)
    for k in range(m):
        left = 1.0 - W[k, k]
        if not left > least:
            return states[k]
        W[k, k] = left
        b[k] /= left
        for j in range(k + 1, m):
            if W[k, j] != 0.0:
                b[j] += b[k] * W[k, j]
        for i in range(k + 1, m):
            if W[i, k] == 0.0:
                continue
            W[i, k] /= left
            factor = W[i, k]
            for j in range(k + 1, m):
                W[i, j] += factor * W[k, j]
    for k in range(m - 1, -1, -1):
        for i in range(k + 1, m):
            b[k] += b[i] * W[i, k]
    for k in range(m):
        q = states[k]
        distance[q] = -np.inf if b[k] == 0.0 else h[q] + np.log(b[k])
    return -1


@lazy_jit(DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, DOUBLES)
def log_distances(
    weight: Any, begins: Any, source: Any, starts: Any, arcs: Any, component: Any, order: Any, bounds: Any,
    cyclic: Any, distance: Any,
) -> int:  # fmt: skip
    """``distance[q]`` becomes the log of the summed weights of all paths to ``q``.

    Returns a state through which the sum diverges, or -1; INVALID if a score is nan or +inf.
    """
    if _n_invalid(weight) + _n_invalid(begins) > 0:
        return INVALID
    n = len(begins)
    most = 1
    for q in range(n):
        most = max(most, starts[q + 1] - starts[q] + 1)
    terms = np.empty(most)
    h = np.empty(n)
    place = np.empty(n, np.int64)
    through = np.empty(n, np.int64)
    for c in range(len(bounds) - 1):
        states = order[bounds[c] : bounds[c + 1]]
        possible = False
        for k in range(len(states)):
            q = states[k]
            known = _arrivals(q, weight, begins, source, starts, arcs, component, distance, terms)
            distance[q] = h[q] = _log_add(terms, known)
            possible = possible or h[q] > -np.inf
            place[q] = k
        if not cyclic[c] or not possible:
            continue
        wrong = _relaxed(states, weight, source, starts, arcs, component, h, through)
        if wrong < 0:
            wrong = _solved(states, place, weight, source, starts, arcs, component, h, distance)
        if wrong >= 0:
            return wrong
    return -1


@lazy_jit(DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, DOUBLES, LONGS)
def max_distances(
    weight: Any, begins: Any, source: Any, starts: Any, arcs: Any, component: Any, order: Any, bounds: Any,
    cyclic: Any, distance: Any, through: Any,
) -> int:  # fmt: skip
    """Set ``distance[q]`` to the score of the best path to ``q``, and ``through[q]`` to its last arc or -1.

    Returns a state after a cycle of score above 0, or -1; INVALID if a score is nan or +inf.
    """
    if _n_invalid(weight) + _n_invalid(begins) > 0:
        return INVALID
    for c in range(len(bounds) - 1):
        states = order[bounds[c] : bounds[c + 1]]
        for q in states:
            best = begins[q]
            last = -1
            for j in range(starts[q], starts[q + 1]):
                arc = arcs[j]
                p = source[arc]
                if component[p] != component[q] and distance[p] + weight[arc] > best:
                    best = distance[p] + weight[arc]
                    last = arc
            distance[q] = best
            through[q] = last
        if cyclic[c]:
            wrong = _relaxed(states, weight, source, starts, arcs, component, distance, through)
            if wrong >= 0:
                return wrong
    return -1


@lazy_jit(DOUBLES, DOUBLES, DOUBLES, LONGS, LONGS, DOUBLES, DOUBLES, float64, DOUBLES, DOUBLES, DOUBLES)
def log_slopes(
    weight: Any, initial: Any, final: Any, source: Any, target: Any, there: Any, onward: Any, log_z: float,
    by_weight: Any, by_initial: Any, by_final: Any,
) -> None:  # fmt: skip
    """How often each arc, each beginning and each end is expected, from the distances of both directions."""
    for i in range(len(weight)):
        by_weight[i] = _share(there[source[i]], weight[i], onward[target[i]], log_z)
    for q in range(len(initial)):
        by_initial[q] = _share(initial[q], onward[q], 0.0, log_z)
        by_final[q] = _share(there[q], final[q], 0.0, log_z)


@njit(nogil=True)
def _share(a: float, b: float, c: float, log_z: float) -> float:
    if a == -np.inf or b == -np.inf or c == -np.inf or log_z == -np.inf:
        return 0.0
    return np.exp(a + b + c - log_z)


@lazy_jit(LONGS, LONGS, int64, LONGS)
def trace_path(source: Any, through: Any, last: int, path: Any) -> int:
    """The path that ``through`` spells backwards from ``last``, written to ``path``; its length."""
    n = 0
    q = last
    while through[q] >= 0 and n < len(path):
        path[n] = through[q]
        q = source[through[q]]
        n += 1
    path[:n] = path[:n][::-1].copy()
    return n


@njit(nogil=True)
def _grown(x: Any, room: int) -> Any:
    larger = np.empty(room, x.dtype)
    larger[: len(x)] = x
    return larger


@lazy_jit(DOUBLES, DOUBLES, DOUBLES, LONGS, LONGS, LONGS, DOUBLES, int64)
def top_paths(
    weight: Any, initial: Any, final: Any, target: Any, out_starts: Any, out_arcs: Any, onward: Any, k: int
) -> Any:
    """The k best paths, best first: A* with the exact score of the best way ``onward`` from each state.

    Returns (paths, bounds, scores): ``paths[bounds[i] : bounds[i + 1]]`` is the first state of a path and then its
    arcs, the other way round. Beginnings are kept as a tree: ``parent``, the arc (or first state) it ends with, its
    state (-1 at the end of a path), its score. Time O(k (arcs + log)).
    """
    n = 0
    room = len(initial) + 1024
    parent = np.empty(room, np.int64)
    taken = np.empty(room, np.int64)
    state = np.empty(room, np.int64)
    so_far = np.empty(room)
    visits = np.zeros(len(initial), np.int64)
    heap = [(0.0, 0) for _ in range(0)]
    for q in range(len(initial)):
        if initial[q] + onward[q] > -np.inf:
            parent[n] = -1
            taken[n] = q
            state[n] = q
            so_far[n] = initial[q]
            heap.append((-(initial[q] + onward[q]), n))
            n += 1
    heapq.heapify(heap)
    ends = [0 for _ in range(0)]
    while len(heap) > 0 and len(ends) < k:
        _, node = heapq.heappop(heap)
        q = state[node]
        score = so_far[node]
        if q < 0:
            ends.append(node)
            continue
        visits[q] += 1
        if visits[q] > k:
            continue
        more = out_starts[q + 1] - out_starts[q] + 1
        if n + more > room:
            room = 2 * (room + more)
            parent = _grown(parent, room)
            taken = _grown(taken, room)
            state = _grown(state, room)
            so_far = _grown(so_far, room)
        if final[q] > -np.inf:
            parent[n] = node
            taken[n] = -1
            state[n] = -1
            so_far[n] = score + final[q]
            heapq.heappush(heap, (-so_far[n], n))
            n += 1
        for i in range(out_starts[q], out_starts[q + 1]):
            arc = out_arcs[i]
            moved = score + weight[arc]
            if moved + onward[target[arc]] > -np.inf:
                parent[n] = node
                taken[n] = arc
                state[n] = target[arc]
                so_far[n] = moved
                heapq.heappush(heap, (-(moved + onward[target[arc]]), n))
                n += 1
    return _spell_paths(parent, taken, so_far, ends)


@njit(nogil=True)
def _spell_paths(parent: Any, taken: Any, so_far: Any, ends: Any) -> Any:
    """What :func:`top_paths` returns, read from its tree upwards from the end of each path."""
    bounds = np.zeros(len(ends) + 1, np.int64)
    for i in range(len(ends)):
        node = parent[ends[i]]
        length = 0
        while node >= 0:
            node = parent[node]
            length = length + 1
        bounds[i + 1] = bounds[i] + length
    paths = np.empty(bounds[-1], np.int64)
    scores = np.empty(len(ends))
    for i in range(len(ends)):
        scores[i] = so_far[ends[i]]
        node = parent[ends[i]]
        place = bounds[i]
        while node >= 0:
            paths[place] = taken[node]
            node = parent[node]
            place = place + 1
    return paths, bounds, scores
