"""Graphs as arrays: strongly connected components, topological order, and useful states and scores.

A graph has states ``0 … n - 1`` and arcs ``source[i] -> target[i]``. Everything here takes time in proportion to the
arcs. An arc, a beginning or an end of score -inf does not exist.

Sums and searches need the useful scores if a cycle on no accepting path diverges, and if a score is nan or +inf: such a
score makes a result nan if and only if it lies on a path whose other scores are all above -inf.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.jit import DOUBLES, LONGS, lazy_jit


@njit(nogil=True)
def group_by_key(keys: Any, n: int) -> tuple[Any, Any]:
    """Arrays (starts, entries) such that the indices of key ``k`` are the entries from ``starts[k]``, in order."""
    starts = np.zeros(n + 1, np.int64)
    for key in keys:
        starts[key + 1] += 1
    for k in range(n):
        starts[k + 1] += starts[k]
    free = starts[:-1].copy()
    members = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        members[free[keys[i]]] = i
        free[keys[i]] += 1
    return starts, members


@njit(nogil=True)
def _components(target: Any, out_starts: Any, out_arcs: Any, n: int) -> tuple[Any, int]:
    """Tarjan (1972) with a stack of its own. Components are numbered so that arcs go to higher numbers."""
    component = np.full(n, -1, np.int64)
    found_at = np.full(n, -1, np.int64)
    low = np.zeros(n, np.int64)
    place = out_starts[:-1].copy()
    waiting = np.empty(n, np.int64)
    trail = np.empty(n, np.int64)
    n_waiting = n_trail = n_found = count = 0
    for root in range(n):
        if found_at[root] >= 0:
            continue
        trail[0] = waiting[n_waiting] = root
        n_trail = 1
        n_waiting = n_waiting + 1
        found_at[root] = low[root] = n_found
        n_found += 1
        while n_trail > 0:
            v = trail[n_trail - 1]
            if place[v] < out_starts[v + 1]:
                w = target[out_arcs[place[v]]]
                place[v] += 1
                if found_at[w] < 0:
                    found_at[w] = low[w] = n_found
                    n_found += 1
                    trail[n_trail] = waiting[n_waiting] = w
                    n_trail = n_trail + 1
                    n_waiting = n_waiting + 1
                elif component[w] < 0:
                    low[v] = min(low[v], found_at[w])
                continue
            n_trail -= 1
            if n_trail > 0:
                u = trail[n_trail - 1]
                low[u] = min(low[u], low[v])
            if low[v] == found_at[v]:
                while component[v] < 0:
                    n_waiting -= 1
                    component[waiting[n_waiting]] = count
                count += 1
    for q in range(n):
        component[q] = count - 1 - component[q]
    return component, count


@lazy_jit(LONGS, LONGS, int64)
def analyze_graph(source: Any, target: Any, n: int) -> Any:
    """Everything about a graph that does not depend on weights.

    Returns (component, order, bounds, cyclic, level, in_starts, in_arcs, out_starts, out_arcs).
    ``order[bounds[c] : bounds[c + 1]]`` are the states of component ``c``; all arcs that leave a component go
    to a higher one. ``cyclic[c]`` is 1 where a cycle runs inside it. ``level[q]`` is the number of components
    on the longest way to that of ``q``.
    """
    out_starts, out_arcs = group_by_key(source, n)
    in_starts, in_arcs = group_by_key(target, n)
    component, count = _components(target, out_starts, out_arcs, n)
    bounds, order = group_by_key(component, count)
    cyclic = np.zeros(count, np.int64)
    depth = np.zeros(count, np.int64)
    for c in range(count):
        if bounds[c + 1] - bounds[c] > 1:
            cyclic[c] = 1
        for i in range(bounds[c], bounds[c + 1]):
            q = order[i]
            for j in range(out_starts[q], out_starts[q + 1]):
                there = component[target[out_arcs[j]]]
                if there == c:
                    cyclic[c] = 1
                else:
                    depth[there] = max(depth[there], depth[c] + 1)
    level = np.empty(n, np.int64)
    for q in range(n):
        level[q] = depth[component[q]]
    return component, order, bounds, cyclic, level, in_starts, in_arcs, out_starts, out_arcs


@njit(nogil=True)
def flood(weight: Any, target: Any, starts: Any, arcs: Any, seen: Any) -> None:
    """Set ``seen`` to 1 for all states that arcs with a score above -inf lead to from states where it is 1."""
    waiting = np.empty(len(seen), np.int64)
    n_waiting = 0
    for q in range(len(seen)):
        if seen[q]:
            waiting[n_waiting] = q
            n_waiting += 1
    while n_waiting > 0:
        n_waiting -= 1
        q = waiting[n_waiting]
        for j in range(starts[q], starts[q + 1]):
            there = target[arcs[j]]
            if weight[arcs[j]] != -np.inf and not seen[there]:
                seen[there] = 1
                waiting[n_waiting] = there
                n_waiting += 1


@njit(nogil=True)
def coaccessible_states(source: Any, target: Any, begins: Any, ends: Any) -> Any:
    """1 for each state on some way from a state where ``begins`` is 1 to one where ``ends`` is 1, else 0."""
    n = len(begins)
    forward = begins.copy()
    backward = ends.copy()
    starts, arcs = group_by_key(source, n)
    every = np.zeros(len(source))
    flood(every, target, starts, arcs, forward)
    starts, arcs = group_by_key(target, n)
    flood(every, source, starts, arcs, backward)
    return forward * backward


@lazy_jit(LONGS, LONGS, LONGS, LONGS)
def useful(source: Any, target: Any, begins: Any, ends: Any) -> Any:
    """:func:`coaccessible_states`, to be called from Python."""
    return coaccessible_states(source, target, begins, ends)


@njit(nogil=True)
def _reached(weight: Any, begins: Any, target: Any, starts: Any, arcs: Any) -> Any:
    """1 for each state with a path of nonzero weight from the beginning, else 0."""
    seen = np.empty(len(begins), np.int64)
    for q in range(len(begins)):
        seen[q] = begins[q] != -np.inf
    flood(weight, target, starts, arcs, seen)
    return seen


@lazy_jit(DOUBLES, DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS)
def useful_scores(
    weight: Any, initial: Any, final: Any, source: Any, target: Any, in_starts: Any, in_arcs: Any, out_starts: Any,
    out_arcs: Any,
) -> Any:  # fmt: skip
    """Copies of the scores with -inf for each one on no accepting path of nonzero weight. Time O(arcs)."""
    there = _reached(weight, initial, target, out_starts, out_arcs)
    onward = _reached(weight, final, source, in_starts, in_arcs)
    weight = weight.copy()
    initial = initial.copy()
    final = final.copy()
    for i in range(len(weight)):
        if not (there[source[i]] and onward[target[i]]):
            weight[i] = -np.inf
    for q in range(len(initial)):
        if not onward[q]:
            initial[q] = -np.inf
        if not there[q]:
            final[q] = -np.inf
    return weight, initial, final


@lazy_jit(DOUBLES, DOUBLES, LONGS, LONGS, LONGS, LONGS)
def invalid_states(weight: Any, begins: Any, source: Any, target: Any, out_starts: Any, out_arcs: Any) -> Any:
    """1 for each state with a path from the beginning that reads nan or +inf and no -inf, else 0."""
    there = _reached(weight, begins, target, out_starts, out_arcs)
    found = np.zeros(len(begins), np.int64)
    for q in range(len(begins)):
        found[q] = not begins[q] < np.inf
    for i in range(len(weight)):
        if there[source[i]] and not weight[i] < np.inf:
            found[target[i]] = 1
    flood(weight, target, out_starts, out_arcs, found)
    return found
