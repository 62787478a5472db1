"""Compiled loops for the best parses with low-rank rules, the k best, and samples, in log space.

The best parse and a sample are one program: a maximum in one is a sum in the other, and a choice in one is a sample in
the other. Backtracking recomputes its choices. The k best are found by lists of the k best of every span and symbol
(Huang & Chiang 2005, algorithm 1). A rank is chosen between a symbol and its parts, and pairs of symbols are not
listed: O(t³ r k log k + t² r s k) for k parses. Parses are rows ``(first, last, symbol, rank)`` in preorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import jit
from catena.kernels.common.ranked_lists import place_way, top_of_lists
from catena.kernels.pcfg.cpu_logs import low_rank_inside, merge_logs
from catena.kernels.pcfg.cpu_search import draw_log
from catena.kernels.tree.cpu_search import clear


@njit(nogil=True)
def _choose(terms: Any, best: bool, uniform: float) -> int:
    """The greatest term, or one drawn in proportion to exp(terms); -1 where all are -inf."""
    if not best:
        return draw_log(terms, uniform)
    top = -np.inf
    found = -1
    for k in range(terms.shape[0]):
        if terms[k] > top:
            top = terms[k]
            found = k
    return found


@jit("d3", "d3", "d3", "d3", "d2", "d4", "b", "i1", "i", "i", "b", "d3", "i4")
def search_rows(
    words: Any, parents: Any, lefts: Any, rights: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int,
    high: int, best: bool, uniforms: Any, found: Any,
) -> None:  # fmt: skip
    """``found[k, r]``: parses drawn by ``uniforms[k, r]``, one number for the root and four for each rule."""
    t = words.shape[1]
    s = lefts.shape[2]
    ranks = parents.shape[2]
    beta = np.empty((t, t, s))
    left = np.empty((t, t, ranks))
    right = np.empty((t, t, ranks))
    todo = np.empty((t + 1, 3), np.int64)
    splits = np.empty(t)
    terms = np.empty(ranks)
    for r in range(low, high):
        for k in range(found.shape[0]):
            clear(found[k, r])
        n_words = lengths[r]
        if n_words == 0:
            continue
        up = parents[min(r, parents.shape[0] - 1)]
        to_left = lefts[min(r, lefts.shape[0] - 1)]
        to_right = rights[min(r, rights.shape[0] - 1)]
        own = spans[min(r, spans.shape[0] - 1)]
        low_rank_inside(words[r], up, to_left, to_right, own, has_spans, n_words, best, beta, left, right)
        whole = roots[min(r, roots.shape[0] - 1)] + beta[0, n_words - 1]
        for k in range(found.shape[0]):
            draws = uniforms[k, r]
            drawn = 1
            a = _choose(whole, best, draws[0])
            if a < 0:
                break
            waiting = 1
            row = 0
            todo[0, 0], todo[0, 1], todo[0, 2] = 0, n_words - 1, a
            while waiting > 0:
                waiting -= 1
                i, j, a = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
                found[k, r, row, 0], found[k, r, row, 1], found[k, r, row, 2] = i, j, a
                if i < j:
                    merge_logs(left, right, i, j, best, splits, terms)
                    q = _choose(up[a] + terms, best, draws[drawn])
                    for m in range(i, j):
                        splits[m - i] = left[i, m, q] + right[m + 1, j, q]
                    m = i + _choose(splits[: j - i], best, draws[drawn + 1])
                    b = _choose(to_left[q] + beta[i, m], best, draws[drawn + 2])
                    c = _choose(to_right[q] + beta[m + 1, j], best, draws[drawn + 3])
                    drawn += 4
                    found[k, r, row, 3] = q
                    todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = m + 1, j, c
                    todo[waiting + 1, 0], todo[waiting + 1, 1], todo[waiting + 1, 2] = i, m, b
                    waiting += 2
                row += 1


@njit(nogil=True)
def _top_splits(left: Any, right: Any, i: int, j: int, q: int, scores: Any, ways: Any) -> None:
    """The best ways (last word on the left, place on the left, place on the right) to split a span under rank q."""
    width = scores.shape[0]
    n = 0
    for m in range(i, j):
        for a in range(width):
            for b in range(width // (a + 1)):  # (a + 1)(b + 1) combinations are at least as good
                value = left[i, m, q, a] + right[m + 1, j, q, b]
                if value == -np.inf or (n == width and value <= scores[width - 1]):
                    break
                n = place_way(scores, ways, n, value, m, a, b)
    for place in range(n, width):
        scores[place] = -np.inf


@njit(nogil=True)
def _fill(
    words: Any, up: Any, to_left: Any, to_right: Any, spans: Any, has_spans: bool, n_words: int, best: Any, left: Any,
    right: Any, merged: Any, ways: Any,
) -> None:  # fmt: skip
    """Scores of the best parses: ``best[i, j, a]`` with ``a`` over a span, ``left[i, j, q]`` as left part of rank q."""
    n, ranks = up.shape
    s = to_left.shape[1]
    for w in range(n_words):
        for i in range(n_words - w):
            j = i + w
            best[i, j] = -np.inf
            if w == 0:
                best[i, j, n:, 0] = words[i]
            else:
                for q in range(ranks):
                    _top_splits(left, right, i, j, q, merged[q], ways)
                for a in range(n):
                    top_of_lists(merged, up[a], best[i, j, a], ways)
                    if has_spans:
                        best[i, j, a] += spans[i, j, a]
            for q in range(ranks):
                top_of_lists(best[i, j, :s], to_left[q], left[i, j, q], ways)
                top_of_lists(best[i, j, :s], to_right[q], right[i, j, q], ways)


@njit(nogil=True)
def _write_tree(
    up: Any, to_left: Any, to_right: Any, n_words: int, top: Any, best: Any, left: Any, right: Any, merged: Any,
    splits: Any, todo: Any, scores: Any, ways: Any, found: Any,
) -> None:  # fmt: skip
    """The parse that begins with the way ``top`` (symbol, place), in preorder."""
    waiting = 1
    row = 0
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, n_words - 1, top[0], top[1]
    while waiting > 0:
        waiting -= 1
        i, j, a, place = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
        found[row, 0], found[row, 1], found[row, 2] = i, j, a
        if i < j:
            for q in range(up.shape[1]):
                _top_splits(left, right, i, j, q, merged[q], splits[q])
            top_of_lists(merged, up[a], scores, ways)
            q = ways[place, 0]
            m, on_left, on_right = splits[q, ways[place, 1]]
            found[row, 3] = q
            top_of_lists(best[m + 1, j], to_right[q], scores, ways)
            todo[waiting, 0], todo[waiting, 1] = m + 1, j
            todo[waiting, 2], todo[waiting, 3] = ways[on_right, 0], ways[on_right, 1]
            top_of_lists(best[i, m], to_left[q], scores, ways)
            todo[waiting + 1, 0], todo[waiting + 1, 1] = i, m
            todo[waiting + 1, 2], todo[waiting + 1, 3] = ways[on_left, 0], ways[on_left, 1]
            waiting += 2
        row += 1


@jit("d3", "d3", "d3", "d3", "d2", "d4", "b", "i1", "i", "i", "i4", "i1")
def top_rows(
    words: Any, parents: Any, lefts: Any, rights: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int,
    high: int, found: Any, counts: Any,
) -> None:  # fmt: skip
    """The best parses of each sentence into ``found[r, k]``, best first, and how many there are."""
    t = words.shape[1]
    s = lefts.shape[2]
    ranks = parents.shape[2]
    width = found.shape[1]
    best = np.empty((t, t, s, width))
    left = np.empty((t, t, ranks, width))
    right = np.empty((t, t, ranks, width))
    merged = np.empty((ranks, width))
    splits = np.zeros((ranks, width, 3), np.int64)
    scores = np.empty(width)
    ways = np.zeros((width, 3), np.int64)
    tops = np.zeros((width, 3), np.int64)
    todo = np.empty((t + 1, 4), np.int64)
    for r in range(low, high):
        counts[r] = 0
        for k in range(width):
            clear(found[r, k])
        n_words = lengths[r]
        if n_words == 0:
            continue
        up = parents[min(r, parents.shape[0] - 1)]
        to_left = lefts[min(r, lefts.shape[0] - 1)]
        to_right = rights[min(r, rights.shape[0] - 1)]
        own = spans[min(r, spans.shape[0] - 1)]
        _fill(words[r], up, to_left, to_right, own, has_spans, n_words, best, left, right, merged, ways)
        counts[r] = top_of_lists(best[0, n_words - 1], roots[min(r, roots.shape[0] - 1)], scores, tops)
        for k in range(counts[r]):
            _write_tree(
                up, to_left, to_right, n_words, tops[k], best, left, right, merged, splits, todo, scores, ways,
                found[r, k],
            )  # fmt: skip
