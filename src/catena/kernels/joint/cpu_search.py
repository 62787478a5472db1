"""Search through a joint n-gram model: all strings of units that read a source, as a pruned lattice.

A node is (place in the source, place in the target if that is given, insertions in a row, history of the n-gram
model). Its outgoing arcs are units. Nodes are done in the order of places and insertions, so that arcs come out sorted:
one pass over them gives sums, one pass back the best and summed weights of what follows.

Where the target is given and the beam is infinite, the sum is log p(x, y), exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64, njit

from catena.kernels.common.floats import log_add
from catena.kernels.common.jit import DOUBLES, FLOATS, INTS, LONGS, lazy_jit
from catena.kernels.ngram.cpu_query import step


@njit(nogil=True, inline="always")
def _home(nodes: Any, slots: Any, key: Any) -> Any:
    last = len(slots) - 1
    i = ((key * 0x9E3779B97F4A7C1) >> 20) & last
    while slots[i] >= 0 and nodes[slots[i], 4] != key:
        i = (i + 1) & last
    return i


@njit(nogil=True)
def _wider(a: Any) -> Any:
    b = np.empty((2 * a.shape[0], a.shape[1]), a.dtype)
    b[: a.shape[0]] = a
    return b


@njit(nogil=True)
def _longer(a: Any) -> Any:
    b = np.empty(2 * a.shape[0], a.dtype)
    b[: a.shape[0]] = a
    return b


@njit(nogil=True)
def _grown(nodes: Any, n: int, size: int) -> Any:
    """A table of ``size`` places for the keys of nodes."""
    slots = np.full(size, -1, np.int64)
    for node in range(n):
        slots[_home(nodes, slots, nodes[node, 4])] = node
    return slots


@njit(nogil=True)
def _listed(first: int, nexts: Any, waiting: Any) -> Any:
    """The nodes of a bucket, which hang together from its first on, in a table that grows as it must; their number."""
    n = 0
    node = first
    while node >= 0:
        if n == len(waiting):
            waiting = _longer(waiting)
        waiting[n] = node
        n += 1
        node = nexts[node]
    return waiting, n


@njit(nogil=True)
def _floor(scores: Any, waiting: Any, n: int, beam: float, most: int) -> float:
    """The score that a node must have to be followed: within the beam, and among the ``most`` best."""
    best = -np.inf
    for k in range(n):
        best = max(best, scores[waiting[k]])
    least = best - beam
    if n > most:
        own = np.empty(n)
        for k in range(n):
            own[k] = scores[waiting[k]]
        least = max(least, np.partition(own, n - most)[n - most])
    return least


@njit(nogil=True, inline="always")
def _fits(target: Any, j: Any, units: Any, u: Any, written: Any) -> Any:
    """Whether what a unit writes is what stands at place j of the target."""
    low, high = units[u, 1], units[u, 2]
    if j + high - low > len(target):
        return False
    for k in range(low, high):  # noqa: SIM110  (compiled code has no generators)
        if target[j + k - low] != written[k]:
            return False
    return True


@njit(nogil=True)
def _first_node(begin: Any) -> Any:
    """Nodes, scores, next nodes and slots of a lattice with a single node; the arrays grow later."""
    nodes = np.empty((64, 5), np.int64)
    scores = np.empty(64)
    nexts = np.empty(64, np.int64)
    slots = np.full(128, -1, np.int64)
    nodes[0, 0] = nodes[0, 1] = nodes[0, 2] = 0
    nodes[0, 3] = nodes[0, 4] = begin
    slots[_home(nodes, slots, nodes[0, 4])] = 0
    scores[0] = 0.0
    nexts[0] = -1
    return nodes, scores, nexts, slots


@njit(nogil=True)
def _longer_nodes(nodes: Any, scores: Any, nexts: Any, firsts: Any, lasts: Any) -> Any:
    return _wider(nodes), _longer(scores), _longer(nexts), _longer(firsts), _longer(lasts)


@njit(nogil=True)
def _expanded(
    histories: Any, histories_f: Any, slots_lm: Any, slots_lm_f: Any, begin: Any, units: Any, written: Any,
    candidates: Any, n: Any, target: Any, given: Any, insertions: Any, beam: Any, most: Any, skip: Any,
) -> Any:  # fmt: skip
    """Nodes and arcs of a lattice of units.

    Nodes are (source position, target position, insertions, history, key) with Viterbi scores; arcs are (from, to,
    unit) with weights. The outgoing arcs of a node are between ``firsts[node]`` and ``lasts[node]``.
    """
    m = len(target) if given else 0
    width = insertions + 1
    n_states = len(histories) // 4
    nodes, scores, nexts, slots = _first_node(begin)
    firsts = np.zeros(64, np.int64)
    lasts = np.zeros(64, np.int64)
    heads = np.full((n + 1) * width, -1, np.int64)
    tops = np.full(n + 1, -np.inf)
    arcs = np.empty((256, 3), np.int64)
    weights = np.empty(256)
    heads[0] = 0
    tops[0] = 0.0
    n_nodes = 1
    n_arcs = 0
    waiting = np.empty(64, np.int64)
    for bucket in range((n + 1) * width):
        i = bucket // width
        ins = bucket % width
        waiting, count = _listed(heads[bucket], nexts, waiting)
        least = max(_floor(scores, waiting, count, beam, most), tops[i] - beam)
        for w in range(count):
            node = waiting[w]
            firsts[node] = lasts[node] = n_arcs
            if scores[node] < least:
                continue
            j = nodes[node, 1]
            history = nodes[node, 3]
            score = scores[node]
            for c in range(candidates.shape[0]):
                if candidates[c, 0] != i:
                    continue
                a = candidates[c, 1]
                if a == 0 and ins == insertions:
                    continue
                for u in range(candidates[c, 2], candidates[c, 3]):
                    if given and not _fits(target, j, units, u, written):
                        continue
                    if units[u, 0] < 0:  # a symbol that no unit reads: passed over at a price
                        after = history
                        weight = skip
                    else:
                        after, log_prob = step(histories, histories_f, slots_lm, slots_lm_f, history, units[u, 0], 0)
                        weight = np.float64(log_prob)
                    new = score + weight
                    if not new > -np.inf or new < tops[i + a] - beam:
                        continue
                    tops[i + a] = max(tops[i + a], new)
                    there = j + units[u, 2] - units[u, 1] if given else 0
                    bin = (i + a) * width + (ins + 1 if a == 0 else 0)
                    key = (np.int64(bin) * (m + 1) + there) * n_states + after
                    place = _home(nodes, slots, key)
                    to = slots[place]
                    if to < 0:
                        if n_nodes == len(nodes):
                            nodes, scores, nexts, firsts, lasts = _longer_nodes(nodes, scores, nexts, firsts, lasts)
                        to = n_nodes
                        nodes[to, 0], nodes[to, 1], nodes[to, 2] = i + a, there, ins + 1 if a == 0 else 0
                        nodes[to, 3], nodes[to, 4] = after, key
                        scores[to] = new
                        nexts[to] = heads[bin]
                        heads[bin] = to
                        firsts[to] = lasts[to] = 0
                        slots[place] = to
                        n_nodes += 1
                        if 2 * n_nodes > len(slots):
                            slots = _grown(nodes, n_nodes, 2 * len(slots))
                    elif new > scores[to]:
                        scores[to] = new
                    if n_arcs == len(arcs):
                        arcs = _wider(arcs)
                        weights = _longer(weights)
                    arcs[n_arcs, 0], arcs[n_arcs, 1], arcs[n_arcs, 2] = node, to, u
                    weights[n_arcs] = weight
                    n_arcs += 1
            lasts[node] = n_arcs
    return nodes[:n_nodes], arcs[:n_arcs], weights[:n_arcs], firsts[:n_nodes], lasts[:n_nodes]


@njit(nogil=True)
def _ends(
    histories: Any, histories_f: Any, slots_lm: Any, slots_lm_f: Any, nodes: Any, n: Any, m: Any, end: Any
) -> Any:
    """The weight of ending in each node."""
    finals = np.full(len(nodes), -np.inf)
    for node in range(len(nodes)):
        if nodes[node, 0] == n and nodes[node, 1] == m:
            _, log_prob = step(histories, histories_f, slots_lm, slots_lm_f, nodes[node, 3], end, 0)
            finals[node] = log_prob
    return finals


@njit(nogil=True)
def _pushed(heap_f: Any, heap: Any, size: int, f: float, entry: int) -> int:
    i = size
    while i > 0 and heap_f[(i - 1) // 2] < f:
        heap_f[i] = heap_f[(i - 1) // 2]
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap_f[i] = f
    heap[i] = entry
    return size + 1


@njit(nogil=True)
def _popped(heap_f: Any, heap: Any, size: int) -> int:
    """Take the greatest off; it is left at place ``size - 1``."""
    f = heap_f[0]
    entry = heap[0]
    size -= 1
    last_f = heap_f[size]
    last = heap[size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and heap_f[child + 1] > heap_f[child]:
            child += 1
        if heap_f[child] <= last_f:
            break
        heap_f[i] = heap_f[child]
        heap[i] = heap[child]
        i = child
    heap_f[i] = last_f
    heap[i] = last
    heap_f[size] = f
    heap[size] = entry
    return size


@njit(nogil=True)
def _onward(arcs: Any, weights: Any, finals: Any) -> Any:
    """The summed weight of all that follows each node, and that of the best."""
    sums = finals.copy()
    best = finals.copy()
    for k in range(len(arcs) - 1, -1, -1):
        a, b = arcs[k, 0], arcs[k, 1]
        if sums[b] > -np.inf:
            sums[a] = log_add(sums[a], weights[k] + sums[b])
            best[a] = max(best[a], weights[k] + best[b])
    return sums, best


@njit(nogil=True)
def _told(entries: Any, entry: int, arcs: Any, found: Any, at: int) -> int:
    """Write the units of a finished path to ``found`` from ``at`` on; returns their number, or -1 if too many."""
    n = 0
    back = entries[entry, 1]
    while entries[back, 2] >= 0:
        n += 1
        back = entries[back, 1]
    if at + n > len(found):
        return -1
    back = entries[entry, 1]
    for k in range(n):
        found[at + n - 1 - k] = arcs[entries[back, 2], 2]
        back = entries[back, 1]
    return n


@njit(nogil=True)
def _best_paths(
    arcs: Any, weights: Any, firsts: Any, lasts: Any, finals: Any, onward: Any, wanted: int, found: Any, lengths: Any,
    scores: Any,
) -> int:  # fmt: skip
    """A* with the exact weights of what follows each node; the number of paths."""
    # An entry of the search is a path from the beginning: (node, entry before, arc), and its weight so far. The
    # node is -1 where the path has ended.
    entries = np.empty((256, 3), np.int64)
    so_far = np.empty(256)
    heap_f = np.empty(256)
    heap = np.empty(256, np.int64)
    entries[0, 0] = 0
    entries[0, 1] = -1
    entries[0, 2] = -1
    so_far[0] = 0.0
    n_entries = 1
    size = _pushed(heap_f, heap, 0, onward[0], 0)
    paths = 0
    at = 0
    while size and paths < wanted:
        size = _popped(heap_f, heap, size)
        entry = heap[size]
        node = entries[entry, 0]
        if node < 0:
            count = _told(entries, entry, arcs, found, at)
            if count < 0:
                break
            lengths[paths] = count
            scores[paths] = so_far[entry]
            at += count
            paths += 1
            continue
        more = lasts[node] - firsts[node] + 1
        while n_entries + more > len(entries):
            entries = _wider(entries)
            so_far = _longer(so_far)
        while size + more > len(heap):
            heap_f = _longer(heap_f)
            heap = _longer(heap)
        if finals[node] > -np.inf:
            entries[n_entries, 0], entries[n_entries, 1], entries[n_entries, 2] = -1, entry, -1
            so_far[n_entries] = so_far[entry] + finals[node]
            size = _pushed(heap_f, heap, size, so_far[n_entries], n_entries)
            n_entries += 1
        for k in range(firsts[node], lasts[node]):
            to = arcs[k, 1]
            if onward[to] > -np.inf:
                entries[n_entries, 0], entries[n_entries, 1], entries[n_entries, 2] = to, entry, k
                so_far[n_entries] = so_far[entry] + weights[k]
                size = _pushed(heap_f, heap, size, so_far[n_entries] + onward[to], n_entries)
                n_entries += 1
    return paths


@lazy_jit(
    INTS, FLOATS, INTS, FLOATS, int64, int64, LONGS, INTS, LONGS, int64, INTS, int64, int64, float64, int64, float64,
    int64, LONGS, LONGS, DOUBLES,
)  # fmt: skip
def joint_ngram_search(
    histories: Any, histories_f: Any, slots_lm: Any, slots_lm_f: Any, begin: int, end: int, flat_units: Any,
    written: Any, flat_candidates: Any, n: int, target: Any, given: int, insertions: int, beam: float, most: int,
    skip: float, wanted: int, found: Any, lengths: Any, scores: Any,
) -> tuple[int, float]:  # fmt: skip
    """The ``wanted`` best strings of units that read a source of n symbols, and the log-sum of all in the lattice.

    ``flat_units`` are rows (id in the n-gram model or -1, begin and end of what is written); ``flat_candidates`` rows
    (place, symbols read, first and last unit). Units of path k are written to ``found``, one path after another,
    ``lengths[k]`` of them. Returns the number of paths and the sum.
    """
    units = flat_units.reshape(-1, 3)
    candidates = flat_candidates.reshape(-1, 4)
    nodes, arcs, weights, firsts, lasts = _expanded(
        histories, histories_f, slots_lm, slots_lm_f, begin, units, written, candidates, n, target, given,
        insertions, beam, most, skip,
    )  # fmt: skip
    m = len(target) if given else 0
    finals = _ends(histories, histories_f, slots_lm, slots_lm_f, nodes, n, m, end)
    sums, onward = _onward(arcs, weights, finals)
    if onward[0] == -np.inf or wanted == 0:
        return 0, sums[0]
    return _best_paths(arcs, weights, firsts, lasts, finals, onward, wanted, found, lengths, scores), sums[0]
