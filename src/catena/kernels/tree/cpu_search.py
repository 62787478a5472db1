"""Compiled loops for the best span trees, the k best, and samples. Backtracking recomputes its choices.

Charts are kept by width, as in :mod:`catena.kernels.tree.cpu`. Trees are written as rows ``(first, last, label)`` in
preorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import jit
from catena.kernels.common.ranked_lists import place_way
from catena.kernels.tree.cpu import inside, label_room, sum_labels
from catena.kernels.tree.floats import power_of_two


@njit(nogil=True)
def clear(rows: Any) -> None:
    """No span in any row."""
    for row in range(rows.shape[0]):
        for x in range(rows.shape[1]):
            rows[row, x] = -1


@njit(nogil=True)
def _best_labels(scores: Any, n: int, own: Any) -> None:
    for i in range(n):
        for j in range(i, n):
            top = scores[i, j, 0]
            for q in range(1, scores.shape[2]):
                top = scores[i, j, q] if scores[i, j, q] > top else top
            own[j - i, i] = top


@njit(nogil=True)
def _best_trees(n: int, own: Any, best: Any, inner: Any) -> None:
    """``best[w, i]``: the score of the best tree over a span; ``inner`` is without that of the span itself."""
    for i in range(n):
        best[0, i] = own[0, i]
    for w in range(1, n):
        top = inner[w]
        for i in range(n - w):
            top[i] = -np.inf
        for u in range(w):
            left, right = best[u], best[w - 1 - u, u + 1 :]
            for i in range(n - w):
                value = left[i] + right[i]
                top[i] = value if value > top[i] else top[i]
        for i in range(n - w):
            best[w, i] = top[i] + own[w, i]


@njit(nogil=True)
def _label_of(scores: Any, value: float) -> int:
    """The first label with this score."""
    for q in range(scores.shape[0]):
        if scores[q] == value:
            return q
    return -1


@njit(nogil=True)
def _split_of(best: Any, value: float, w: int, i: int) -> int:
    """The first split whose parts have this score together."""
    for u in range(w):
        if best[u, i] + best[w - 1 - u, i + u + 1] == value:
            return u
    return -1


@jit("d4", "i1", "i", "i", "i3")
def best_rows(scores: Any, lengths: Any, low: int, high: int, spans: Any) -> None:
    """The best tree of each row; rows of -1 beyond it and where none is possible."""
    t = scores.shape[1]
    own = np.empty((t, t))
    best = np.empty((t, t))
    inner = np.empty((t, t))
    todo = np.empty((t + 1, 2), np.int64)
    for r in range(low, high):
        n = lengths[r]
        clear(spans[r])
        if n == 0:
            continue
        _best_labels(scores[r], n, own)
        _best_trees(n, own, best, inner)
        if best[n - 1, 0] == -np.inf:
            continue
        waiting = 1
        row = 0
        todo[0, 0], todo[0, 1] = n - 1, 0
        while waiting > 0:
            waiting -= 1
            w, i = todo[waiting, 0], todo[waiting, 1]
            spans[r, row, 0], spans[r, row, 1] = i, i + w
            spans[r, row, 2] = _label_of(scores[r, i, i + w], own[w, i])
            row += 1
            if w > 0:
                u = _split_of(best, inner[w, i], w, i)
                todo[waiting, 0], todo[waiting, 1] = w - 1 - u, i + u + 1
                todo[waiting + 1, 0], todo[waiting + 1, 1] = u, i
                waiting += 2


@njit(nogil=True)
def _top_splits(best: Any, w: int, i: int, scores: Any, ways: Any) -> int:
    """The best ways (split, rank on the left, rank on the right) to make two parts of a span, best first."""
    width = scores.shape[0]
    n = 0
    if w == 0:
        return place_way(scores, ways, 0, 0.0, -1, -1, -1)
    for u in range(w):
        left, right = best[u, i], best[w - 1 - u, i + u + 1]
        for p in range(width):
            for q in range(width // (p + 1)):  # this number of others is at least as good as the rest
                value = left[p] + right[q]
                if value == -np.inf or (n == width and value <= scores[n - 1]):
                    break
                n = place_way(scores, ways, n, value, u, p, q)
    return n


@njit(nogil=True)
def _top_labels(labels: Any, inner: Any, n_inner: int, scores: Any, ways: Any) -> int:
    """The best ways (label, rank of the way to split) to make a span, best first."""
    width = scores.shape[0]
    n = 0
    for q in range(labels.shape[0]):
        for rank in range(n_inner):
            value = labels[q] + inner[rank]
            if value == -np.inf or (n == width and value <= scores[n - 1]):
                break
            n = place_way(scores, ways, n, value, q, rank, 0)
    return n


@jit("d4", "i1", "i", "i", "i4", "i1")
def top_rows(scores: Any, lengths: Any, low: int, high: int, spans: Any, found: Any) -> None:
    """The best trees of each row into ``spans[r, n]``, best first, and how many there are."""
    t = scores.shape[1]
    width = spans.shape[1]
    best = np.empty((t, t, width))
    inner = np.empty(width)
    splits = np.empty((width, 3), np.int64)
    outer = np.empty(width)
    labels = np.empty((width, 3), np.int64)
    todo = np.empty((t + 1, 3), np.int64)
    for r in range(low, high):
        n = lengths[r]
        for rank in range(width):
            clear(spans[r, rank])
        found[r] = 1
        if n == 0:
            continue
        for w in range(n):
            for i in range(n - w):
                count = _top_splits(best, w, i, inner, splits)
                count = _top_labels(scores[r, i, i + w], inner, count, outer, labels)
                for rank in range(width):
                    best[w, i, rank] = outer[rank] if rank < count else -np.inf
        found[r] = 0
        while found[r] < width and best[n - 1, 0, found[r]] > -np.inf:
            waiting = 1
            row = 0
            todo[0, 0], todo[0, 1], todo[0, 2] = n - 1, 0, found[r]
            while waiting > 0:
                waiting -= 1
                w, i, rank = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
                count = _top_splits(best, w, i, inner, splits)
                _top_labels(scores[r, i, i + w], inner, count, outer, labels)
                spans[r, found[r], row, 0], spans[r, found[r], row, 1] = i, i + w
                spans[r, found[r], row, 2] = labels[rank, 0]
                row += 1
                if w > 0:
                    way = splits[labels[rank, 1]]
                    u, left, right = way[0], way[1], way[2]
                    todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = w - 1 - u, i + u + 1, right
                    todo[waiting + 1, 0], todo[waiting + 1, 1], todo[waiting + 1, 2] = u, i, left
                    waiting += 2
            found[r] += 1


@njit(nogil=True)
def _draw_label(shares: Any, uniform: float) -> int:
    found = -1
    running = 0.0
    for q in range(shares.shape[0]):
        if shares[q] > 0:
            found = q
            running += shares[q]
            if running > uniform:
                break
    return found


@njit(nogil=True)
def _draw_split(beta: Any, beta_e: Any, total: float, e: int, w: int, i: int, uniform: float) -> int:
    found = -1
    running = 0.0
    for u in range(w):
        share = beta[u, i] * beta[w - 1 - u, i + u + 1]
        share *= power_of_two(beta_e[u, i] + beta_e[w - 1 - u, i + u + 1] - e)
        if share > 0:
            found = u
            running += share
            if running > uniform * total:
                break
    return found


@jit("d4", "i1", "i", "i", "d3", "i4")
def sample_rows(scores: Any, lengths: Any, low: int, high: int, uniforms: Any, spans: Any) -> None:
    """``spans[s, r]``: trees drawn by ``uniforms[s, r]``, one number for each label and split, top down."""
    t = scores.shape[1]
    own = np.empty((t, t))
    own_e = np.empty((t, t), np.int64)
    beta = np.empty((t, t))
    beta_e = np.empty((t, t), np.int64)
    inner = np.empty((t, t))
    inner_e = np.empty((t, t), np.int64)
    shares = np.empty(scores.shape[1:])
    todo = np.empty((t + 1, 2), np.int64)
    spans_room, labels_room = label_room(t, scores.shape[3])
    for r in range(low, high):
        n = lengths[r]
        for s in range(spans.shape[0]):
            clear(spans[s, r])
        if n == 0:
            continue
        sum_labels(scores[r], n, 0, 1, own, own_e, shares, True, spans_room, labels_room)
        inside(n, 1, own, own_e, beta, beta_e, inner, inner_e)
        if beta[n - 1, 0] == 0:
            continue
        for s in range(spans.shape[0]):
            waiting = 1
            row = 0
            drawn = 0
            todo[0, 0], todo[0, 1] = n - 1, 0
            while waiting > 0:
                waiting -= 1
                w, i = todo[waiting, 0], todo[waiting, 1]
                spans[s, r, row, 0], spans[s, r, row, 1] = i, i + w
                spans[s, r, row, 2] = _draw_label(shares[i, i + w], uniforms[s, r, drawn])
                drawn = drawn + 1
                row = row + 1
                if w > 0:
                    u = _draw_split(beta, beta_e, inner[w, i], inner_e[w, i], w, i, uniforms[s, r, drawn])
                    drawn += 1
                    todo[waiting, 0], todo[waiting, 1] = w - 1 - u, i + u + 1
                    todo[waiting + 1, 0], todo[waiting + 1, 1] = u, i
                    waiting += 2
