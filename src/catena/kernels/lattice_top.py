"""The k best paths of a weighted graph, by a compiled loop. Uses only numpy arrays."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.array_types import DOUBLES, LONGS
from catena.kernels.jit import lazy_jit


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
    n, room = 0, len(initial) + 1024
    parent, taken = np.empty(room, np.int64), np.empty(room, np.int64)
    state, so_far, visits = np.empty(room, np.int64), np.empty(room), np.zeros(len(initial), np.int64)
    heap = [(0.0, 0) for _ in range(0)]
    for q in range(len(initial)):
        if initial[q] + onward[q] > -np.inf:
            parent[n], taken[n], state[n], so_far[n] = -1, q, q, initial[q]
            heap.append((-(initial[q] + onward[q]), n))
            n += 1
    heapq.heapify(heap)
    ends = [0 for _ in range(0)]
    while len(heap) > 0 and len(ends) < k:
        _, node = heapq.heappop(heap)
        q, score = state[node], so_far[node]
        if q < 0:
            ends.append(node)
            continue
        visits[q] += 1
        if visits[q] > k:
            continue
        more = out_starts[q + 1] - out_starts[q] + 1
        if n + more > room:
            room = 2 * (room + more)
            parent, taken = _grown(parent, room), _grown(taken, room)
            state, so_far = _grown(state, room), _grown(so_far, room)
        if final[q] > -np.inf:
            parent[n], taken[n], state[n], so_far[n] = node, -1, -1, score + final[q]
            heapq.heappush(heap, (-so_far[n], n))
            n += 1
        for i in range(out_starts[q], out_starts[q + 1]):
            arc = out_arcs[i]
            moved = score + weight[arc]
            if moved + onward[target[arc]] > -np.inf:
                parent[n], taken[n], state[n], so_far[n] = node, arc, target[arc], moved
                heapq.heappush(heap, (-(moved + onward[target[arc]]), n))
                n += 1
    bounds = np.zeros(len(ends) + 1, np.int64)
    for i in range(len(ends)):
        node, length = parent[ends[i]], 0
        while node >= 0:
            node, length = parent[node], length + 1
        bounds[i + 1] = bounds[i] + length
    paths, scores = np.empty(bounds[-1], np.int64), np.empty(len(ends))
    for i in range(len(ends)):
        scores[i] = so_far[ends[i]]
        node, place = parent[ends[i]], bounds[i]
        while node >= 0:
            paths[place] = taken[node]
            node, place = parent[node], place + 1
    return paths, bounds, scores
