"""Compiled loops for the best projective trees, the k best, and samples.

The charts are as in :mod:`catena.kernels.dependency.cpu_eisner`. Backtracking recomputes its choices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.floats import narrow
from catena.kernels.common.jit import jit
from catena.kernels.dependency.cpu_eisner import inside, level, weigh


@njit(nogil=True, fastmath={"nnan", "nsz"})
def _best_sum(a: Any, b: Any) -> float:
    top = -np.inf
    for k in range(a.shape[0]):
        value = a[k] + b[k]
        top = value if value > top else top
    return top


@njit(nogil=True)
def _best_place(a: Any, b: Any) -> int:
    """Where the best sum is; -1 where all are -inf."""
    top = -np.inf
    place = -1
    for k in range(a.shape[0]):
        if a[k] + b[k] > top:
            top = a[k] + b[k]
            place = k
    return place


@njit(nogil=True)
def _best_halves(arcs: Any, n: int, single_root: bool, c: Any, ct: Any, i: Any) -> None:
    """The scores of the best half-trees."""
    for h in range(n + 1):
        c[h, h] = ct[h, h] = 0.0
    for width in range(1, n + 1):
        for a in range(n + 1 - width):
            b = a + width
            size = 1 if single_root and a == 0 else width
            below = _best_sum(c[a, a : a + size], c[b, a + 1 : a + 1 + size])
            i[a, b] = below + arcs[a, b]
            i[b, a] = below + arcs[b, a] if a > 0 else -np.inf
            c[a, b] = ct[b, a] = _best_sum(i[a, a + 1 : b + 1], ct[b, a + 1 : b + 1])
            c[b, a] = ct[a, b] = _best_sum(i[b, a:b], ct[a, a:b])


@jit("3", "i1", "b", "i", "i", "i2")
def best_rows(arcs: Any, lengths: Any, single_root: bool, low: int, high: int, heads: Any) -> None:
    """The heads of the best tree of each row, into what is -1 before."""
    size = arcs.shape[1]
    c = np.empty((size, size))
    ct = np.empty((size, size))
    i = np.empty((size, size))
    stack = np.empty((2 * size + 2, 2), np.int64)
    for r in range(low, high):
        n = lengths[r]
        _best_halves(arcs[r], n, single_root, c, ct, i)
        depth = 1 if n > 0 and c[0, n] > -np.inf else 0
        stack[0, 0], stack[0, 1] = 0, n
        while depth > 0:
            depth -= 1
            h, e = stack[depth]
            if h == e:
                continue
            start = h + 1 if h < e else e
            m = start + _best_place(i[h, start : start + abs(e - h)], ct[e, start : start + abs(e - h)])
            heads[r, m - 1] = h
            a = min(h, m)
            b = max(h, m)
            size_below = 1 if single_root and a == 0 else b - a
            k = a + _best_place(c[a, a : a + size_below], c[b, a + 1 : a + 1 + size_below])
            for x, y in ((m, e), (a, k), (b, k + 1)):
                stack[depth, 0], stack[depth, 1] = x, y
                depth += 1


@njit(nogil=True)
def _ranked(a: Any, b: Any, scores: Any, places: Any) -> int:
    """The best sums of an entry of ``a[t]`` and one of ``b[t]``, over all t, best first, and their number.

    ``places`` says of each: t, and the ranks in both lists.
    """
    width = scores.shape[0]
    n = 0
    for t in range(a.shape[0]):
        for p in range(a.shape[1]):
            if not a[t, p] > -np.inf:
                break
            for q in range(b.shape[1]):
                value = a[t, p] + b[t, q]
                if not value > -np.inf or (n == width and value <= scores[n - 1]):
                    break
                place = min(n, width - 1)
                while place > 0 and scores[place - 1] < value:
                    scores[place] = scores[place - 1]
                    places[place] = places[place - 1]
                    place -= 1
                scores[place] = value
                places[place, 0], places[place, 1], places[place, 2] = t, p, q
                n = min(n + 1, width)
    return n


@njit(nogil=True)
def _put_list(chart: Any, i: int, j: int, scores: Any, n: int) -> None:
    for k in range(scores.shape[0]):
        chart[i, j, k] = scores[k] if k < n else -np.inf


@njit(nogil=True)
def _ranked_halves(
    arcs: Any, n: int, single_root: bool, c: Any, ct: Any, i: Any, below: Any, scores: Any, places: Any
) -> None:
    """The scores of the k best half-trees."""
    for h in range(n + 1):
        scores[0] = 0.0
        _put_list(c, h, h, scores, 1)
        _put_list(ct, h, h, scores, 1)
    for width in range(1, n + 1):
        for a in range(n + 1 - width):
            b = a + width
            size = 1 if single_root and a == 0 else width
            count = _ranked(c[a, a : a + size], c[b, a + 1 : a + 1 + size], scores, places)
            _put_list(below, a, b, scores, count)
            _put_list(below, b, a, scores, count)
            for h, m in ((a, b), (b, a)):
                count = _ranked(below[h, m : m + 1], arcs[h, m : m + 1], scores, places) if m > 0 else 0
                _put_list(i, h, m, scores, count)
            for h, e, low in ((a, b, a + 1), (b, a, a)):
                count = _ranked(i[h, low : low + width], ct[e, low : low + width], scores, places)
                _put_list(c, h, e, scores, count)
                _put_list(ct, e, h, scores, count)


@njit(nogil=True)
def _ranked_tree(
    rank: int, n: int, single_root: bool, arcs: Any, c: Any, ct: Any, i: Any, below: Any, scores: Any, places: Any,
    stack: Any, heads: Any, labels: Any,
) -> None:  # fmt: skip
    """The heads and the ranks of labels of the tree with this rank."""
    depth = 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, rank
    while depth > 0:
        depth -= 1
        h, e, rank = stack[depth]
        if h == e:
            continue
        start = h + 1 if h < e else e
        stop = start + abs(e - h)
        _ranked(i[h, start:stop], ct[e, start:stop], scores, places)
        m = start + places[rank, 0]
        arc_rank = places[rank, 1]
        end_rank = places[rank, 2]
        _ranked(below[h, m : m + 1], arcs[h, m : m + 1], scores, places)
        heads[m - 1] = h
        labels[m - 1] = places[arc_rank, 2]
        below_rank = places[arc_rank, 1]
        a = min(h, m)
        b = max(h, m)
        size = 1 if single_root and a == 0 else b - a
        _ranked(c[a, a : a + size], c[b, a + 1 : a + 1 + size], scores, places)
        k = a + places[below_rank, 0]
        rank_a = places[below_rank, 1]
        rank_b = places[below_rank, 2]
        for x, y, z in ((m, e, end_rank), (a, k, rank_a), (b, k + 1, rank_b)):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = x, y, z
            depth += 1


@jit("4", "i1", "b", "i", "i", "i3", "i3", "i1")
def top_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, heads: Any, labels: Any, found: Any
) -> None:
    """Heads and ranks of labels of the best trees of each row, best first, into what is -1 before; their number."""
    size = arcs.shape[1]
    width = heads.shape[1]
    c = np.empty((size, size, width))
    ct = np.empty((size, size, width))
    i = np.empty((size, size, width))
    below = np.empty((size, size, width))
    scores = np.empty(width)
    places = np.empty((width, 3), np.int64)
    stack = np.empty((2 * size + 2, 3), np.int64)
    for r in range(low, high):
        n = lengths[r]
        _ranked_halves(arcs[r], n, single_root, c, ct, i, below, scores, places)
        found[r] = 0
        while found[r] < width and c[0, n, found[r]] > -np.inf:
            rank = found[r]
            _ranked_tree(
                rank, n, single_root, arcs[r], c, ct, i, below, scores, places, stack, heads[r, rank], labels[r, rank]
            )
            found[r] += 1


@njit(nogil=True)
def _drawn(am: Any, ae: Any, bm: Any, be: Any, total_m: float, total_e: int, uniform: float) -> int:
    """A place drawn in proportion to the products of two rows of wide numbers, whose sum is given."""
    place = -1
    running = 0.0
    for k in range(am.shape[0]):
        share = am[k] * bm[k]
        if share > 0:
            place = k
            running += narrow(share / total_m, ae[k] + be[k] - total_e)
            if running > uniform:
                break
    return place


@njit(nogil=True)
def _drawn_tree(n: int, single_root: bool, m: Any, e: Any, uniforms: Any, stack: Any, heads: Any) -> None:
    """One tree drawn by the charts c, ct and i, which are the numbers 1, 2 and 3 of the wide ones."""
    depth = 1
    used = 0
    stack[0, 0], stack[0, 1] = 0, n
    while depth > 0:
        depth -= 1
        h, end = stack[depth]
        if h == end:
            continue
        low = h + 1 if h < end else end
        high = low + abs(end - h)
        total = m[1, h, end], e[1, h, end]
        word = low + _drawn(
            m[3, h, low:high], e[3, h, low:high], m[2, end, low:high], e[2, end, low:high], *total, uniforms[used]
        )
        heads[word - 1] = h
        a = min(h, word)
        b = max(h, word)
        high = a + 1 if single_root and a == 0 else b
        # The arc's own weight is in i, not in what lies below it.
        total = m[3, h, word] / m[0, h, word], e[3, h, word] - e[0, h, word]
        k = a + _drawn(
            m[1, a, a:high], e[1, a, a:high], m[1, b, a + 1 : high + 1], e[1, b, a + 1 : high + 1], *total,
            uniforms[used + 1],
        )  # fmt: skip
        used += 2
        for x, y in ((word, end), (a, k), (b, k + 1)):
            stack[depth, 0], stack[depth, 1] = x, y
            depth += 1


@jit("3", "i1", "b", "i", "i", "3", "i3")
def sample_rows(arcs: Any, lengths: Any, single_root: bool, low: int, high: int, uniforms: Any, heads: Any) -> None:
    """``heads[s, r]``: trees drawn by ``uniforms[s, r]``, two numbers for each word, into what is -1 before."""
    size = arcs.shape[1]
    x = np.empty((size, size))
    top = np.empty(size)
    m = np.empty((5, size, size))
    e = np.empty((5, size, size), np.int64)
    stack = np.empty((2 * size + 2, 2), np.int64)
    for r in range(low, high):
        n = lengths[r]
        level(arcs[r], n, single_root, x, top)
        weigh(x, n, 0.0, True, m[0], e[0])
        charts = (m[1], e[1]), (m[2], e[2]), (m[3], e[3]), (m[4], e[4])
        total = inside((m[0], e[0]), n, single_root, True, *charts)
        for s in range(heads.shape[0]):
            if total[0] > 0:
                _drawn_tree(n, single_root, m, e, uniforms[s, r], stack, heads[s, r])
