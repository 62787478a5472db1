"""Graphs as arrays: strongly connected components, topological order, and which states are of use.

A graph has states ``0 … n - 1`` and arcs ``source[i] -> target[i]``. Everything here takes time in proportion
to the arcs, and knows no weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.array_types import LONGS
from catena.kernels.jit import lazy_jit


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
    waiting, trail = np.empty(n, np.int64), np.empty(n, np.int64)
    n_waiting = n_trail = n_found = count = 0
    for root in range(n):
        if found_at[root] >= 0:
            continue
        trail[0] = waiting[n_waiting] = root
        n_trail, n_waiting = 1, n_waiting + 1
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
                    n_trail, n_waiting = n_trail + 1, n_waiting + 1
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
    forward, backward = begins.copy(), ends.copy()
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
