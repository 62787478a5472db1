"""Compiled loops for the best parses with dense rules, the k best, and samples.

Charts are ``[i, j, a]`` over all symbols; parses are rows ``(first, last, symbol)`` in preorder. Backtracking
recomputes its choices. The k best are found by lists of the k best of every span and symbol (Huang & Chiang 2005,
algorithm 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.floats import LN2
from catena.kernels.common.jit import jit
from catena.kernels.common.ranked_lists import place_way, top_of_lists
from catena.kernels.pcfg.cpu_logs import dense_inside
from catena.kernels.tree.cpu_search import clear


@njit(nogil=True)
def words_alone(words: Any, n_words: int, best: Any) -> None:
    """Spans of one word in a chart over all symbols; the rest of the chart is -inf."""
    n = best.shape[2] - words.shape[1]
    for i in range(n_words):
        for j in range(n_words):
            for a in range(best.shape[2]):
                best[i, j, a] = -np.inf
        for q in range(words.shape[1]):
            best[i, i, n + q] = words[i, q]


@njit(nogil=True)
def symbol_range(words: int, n: int, s: int) -> tuple[int, int]:
    """The range of symbols that can cover this number of words."""
    return (n, s) if words == 1 else (0, n)


@njit(nogil=True)
def _best_pairs(best: Any, n: int, i: int, j: int, pairs: Any) -> None:
    """``pairs[b, c]``: the best of all splits with ``b`` on the left and ``c`` on the right."""
    s = best.shape[2]
    for b in range(s):
        for c in range(s):
            pairs[b, c] = -np.inf
    for m in range(i, j):
        b_low, b_high = symbol_range(m - i + 1, n, s)
        c_low, c_high = symbol_range(j - m, n, s)
        left, right = best[i, m], best[m + 1, j]
        for b in range(b_low, b_high):
            here = pairs[b]
            x = left[b]
            for c in range(c_low, c_high):
                value = x + right[c]
                here[c] = value if value > here[c] else here[c]


@njit(nogil=True)
def _best_parents(pairs: Any, rules: Any, n: int, found: Any) -> None:
    """``found[a]``: the best of pairs[b, c] + rules[b, c, a]."""
    s = pairs.shape[0]
    for b in range(s):
        for c in range(s):
            value = pairs[b, c]
            if value > -np.inf:
                row = rules[b, c]
                for a in range(n):
                    x = value + row[a]
                    found[a] = x if x > found[a] else found[a]


@njit(nogil=True)
def _best_way(best: Any, rules: Any, n: int, i: int, j: int, a: int) -> tuple[int, int, int]:
    """(middle, left symbol, right symbol) of the best way to make ``a`` of the words ``i`` to ``j``."""
    s = best.shape[2]
    top = -np.inf
    way = (-1, -1, -1)
    for m in range(i, j):
        b_low, b_high = symbol_range(m - i + 1, n, s)
        c_low, c_high = symbol_range(j - m, n, s)
        for b in range(b_low, b_high):
            for c in range(c_low, c_high):
                value = best[i, m, b] + best[m + 1, j, c] + rules[b, c, a]
                if value > top:
                    top = value
                    way = (m, b, c)
    return way


@jit("d3", "d4", "d2", "d4", "b", "i1", "i", "i", "i3")
def best_rows(
    words: Any, rules: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int, high: int, found: Any
) -> None:
    """The best parse of each sentence; ``rules`` are ``[g, b, c, a]``, the parent last."""
    t = words.shape[1]
    n = rules.shape[3]
    s = rules.shape[1]
    best = np.empty((t, t, s))
    pairs = np.empty((s, s))
    todo = np.empty((t + 1, 3), np.int64)
    for r in range(low, high):
        clear(found[r])
        n_words = lengths[r]
        own = rules[min(r, rules.shape[0] - 1)]
        if n_words == 0:
            continue
        words_alone(words[r], n_words, best)
        for w in range(1, n_words):
            for i in range(n_words - w):
                here = best[i, i + w]
                _best_pairs(best, n, i, i + w, pairs)
                _best_parents(pairs, own, n, here)
                if has_spans:
                    for a in range(n):
                        here[a] += spans[r, i, i + w, a]
        edge = min(r, roots.shape[0] - 1)
        top = -np.inf
        a = -1
        for q in range(s):
            value = roots[edge, q] + best[0, n_words - 1, q]
            if value > top:
                top = value
                a = q
        if a < 0:
            continue
        waiting = 1
        row = 0
        todo[0, 0], todo[0, 1], todo[0, 2] = 0, n_words - 1, a
        while waiting > 0:
            waiting -= 1
            i, j, a = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
            found[r, row, 0], found[r, row, 1], found[r, row, 2] = i, j, a
            row += 1
            if i < j:
                m, b, c = _best_way(best, own, n, i, j, a)
                todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = m + 1, j, c
                todo[waiting + 1, 0], todo[waiting + 1, 1], todo[waiting + 1, 2] = i, m, b
                waiting += 2


@njit(nogil=True)
def draw_log(terms: Any, uniform: float) -> int:
    """A number drawn in proportion to exp(terms)."""
    top = -np.inf
    total = 0.0
    for x in terms:
        top = x if x > top else top
    for x in terms:
        total += np.exp(x - top)
    found = -1
    running = 0.0
    for k in range(terms.shape[0]):
        if terms[k] > -np.inf:
            found = k
            running += np.exp(terms[k] - top)
            if running > uniform * total:
                break
    return found


@njit(nogil=True)
def _unpack(words: Any, chart: Any, e: Any, t: int, n_words: int, beta: Any) -> None:
    """The logs of weights, from a chart of :mod:`catena.kernels.pcfg.solve`."""
    words_alone(words, n_words, beta)
    for w in range(1, n_words):
        for i in range(n_words - w):
            at = w * t - w * (w - 1) // 2 + i
            for a in range(chart.shape[1]):
                if chart[at, a] > 0:
                    beta[i, i + w, a] = np.log(chart[at, a]) + e[at] * LN2


@njit(nogil=True)
def _level(beta: Any, n_words: int, weights: Any, tops: Any) -> None:
    """``weights``: exp(beta) over the greatest of each span, whose log goes to ``tops``."""
    for i in range(n_words):
        for j in range(i, n_words):
            top = -np.inf
            for x in beta[i, j]:
                top = x if x > top else top
            tops[i, j] = top
            for a in range(beta.shape[2]):
                weights[i, j, a] = np.exp(beta[i, j, a] - top) if top > -np.inf else 0.0


@njit(nogil=True)
def _split_sums(weights: Any, tops: Any, rule: Any, n: int, i: int, j: int, sums: Any) -> None:
    """For each split the log of what it gives to a symbol with these rules (weights over the greatest of them)."""
    s = weights.shape[2]
    for m in range(i, j):
        b_low, b_high = symbol_range(m - i + 1, n, s)
        c_low, c_high = symbol_range(j - m, n, s)
        total = 0.0
        for b in range(b_low, b_high):
            if weights[i, m, b] > 0:
                part = 0.0
                for c in range(c_low, c_high):
                    part += rule[b, c] * weights[m + 1, j, c]
                total += part * weights[i, m, b]
        sums[m - i] = np.log(total) + tops[i, m] + tops[m + 1, j] if total > 0 else -np.inf


@njit(nogil=True)
def _exact_split_sums(beta: Any, rule: Any, n: int, i: int, j: int, sums: Any, terms: Any) -> None:
    """The same by logs alone: any range, and slow."""
    for m in range(i, j):
        _pair_terms(beta, rule, n, i, m, j, terms)
        top = -np.inf
        total = 0.0
        for x in terms:
            top = x if x > top else top
        if top > -np.inf:
            for x in terms:
                total += np.exp(x - top)
        sums[m - i] = top + np.log(total) if total > 0 else -np.inf


@njit(nogil=True)
def _pair_terms(beta: Any, rule: Any, n: int, i: int, m: int, j: int, terms: Any) -> None:
    """The log of what each pair of symbols gives at one split."""
    s = beta.shape[2]
    for b in range(s):
        for c in range(s):
            terms[b * s + c] = beta[i, m, b] + beta[m + 1, j, c] + rule[b, c]


@jit("d3", "d4", "d4", "d2", "d4", "b", "i1", "b1", "d3", "i2", "i", "i", "d3", "i4")
def sample_rows(
    words: Any, rules: Any, weighed: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, exact: Any, chart: Any,
    e: Any, low: int, high: int, uniforms: Any, found: Any,
) -> None:  # fmt: skip
    """``found[k, r]``: parses drawn by ``uniforms[k, r]``, one number for the root and two for each rule."""
    t = words.shape[1]
    n = rules.shape[1]
    s = rules.shape[2]
    beta = np.empty((t, t, s))
    weights = np.empty((t, t, s))
    tops = np.empty((t, t))
    sums = np.empty(t)
    terms = np.empty(s * s)
    todo = np.empty((t + 1, 3), np.int64)
    for r in range(low, high):
        for k in range(found.shape[0]):
            clear(found[k, r])
        n_words = lengths[r]
        g = min(r, rules.shape[0] - 1)
        if n_words == 0:
            continue
        if exact[r]:
            _unpack(words[r], chart[r], e[r], t, n_words, beta)
        else:
            dense_inside(words[r], rules[g], spans[min(r, spans.shape[0] - 1)], has_spans, n_words, beta)
        _level(beta, n_words, weights, tops)
        whole = roots[min(r, roots.shape[0] - 1)] + beta[0, n_words - 1]
        for k in range(found.shape[0]):
            a = draw_log(whole, uniforms[k, r, 0])
            if a < 0:
                break
            waiting = 1
            row = 0
            drawn = 1
            todo[0, 0], todo[0, 1], todo[0, 2] = 0, n_words - 1, a
            while waiting > 0:
                waiting -= 1
                i, j, a = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2]
                found[k, r, row, 0], found[k, r, row, 1], found[k, r, row, 2] = i, j, a
                row += 1
                if i < j:
                    if exact[r]:
                        _split_sums(weights, tops, weighed[g, a], n, i, j, sums)
                    else:
                        _exact_split_sums(beta, rules[g, a], n, i, j, sums, terms)
                    m = i + draw_log(sums[: j - i], uniforms[k, r, drawn])
                    _pair_terms(beta, rules[g, a], n, i, m, j, terms)
                    pair = draw_log(terms, uniforms[k, r, drawn + 1])
                    drawn += 2
                    todo[waiting, 0], todo[waiting, 1], todo[waiting, 2] = m + 1, j, pair % s
                    todo[waiting + 1, 0], todo[waiting + 1, 1], todo[waiting + 1, 2] = i, m, pair // s
                    waiting += 2


@njit(nogil=True)
def _top_pairs(best: Any, n: int, i: int, j: int, scores: Any, ways: Any, counts: Any) -> None:
    """For each pair of symbols the best ways (middle, rank on the left, rank on the right), best first."""
    s, width = best.shape[2], best.shape[3]
    for b in range(s):
        for c in range(s):
            counts[b, c] = 0
    for m in range(i, j):
        b_low, b_high = symbol_range(m - i + 1, n, s)
        c_low, c_high = symbol_range(j - m, n, s)
        for b in range(b_low, b_high):
            for c in range(c_low, c_high):
                for p in range(width):
                    for q in range(width // (p + 1)):
                        value = best[i, m, b, p] + best[m + 1, j, c, q]
                        count = counts[b, c]
                        if value == -np.inf or (count == width and value <= scores[b, c, width - 1]):
                            break
                        counts[b, c] = place_way(scores[b, c], ways[b, c], count, value, m, p, q)


@njit(nogil=True)
def _top_parents(pairs: Any, counts: Any, rules: Any, a: int, scores: Any, ways: Any) -> int:
    """The best ways (left symbol, right symbol, rank of the way to split) to make ``a``, best first."""
    s = counts.shape[0]
    width = scores.shape[0]
    n = 0
    for b in range(s):
        for c in range(s):
            for rank in range(counts[b, c]):
                value = pairs[b, c, rank] + rules[b, c, a]
                if value == -np.inf or (n == width and value <= scores[width - 1]):
                    break
                n = place_way(scores, ways, n, value, b, c, rank)
    return n


@jit("d3", "d4", "d2", "d4", "b", "i1", "i", "i", "i4", "i1")
def top_rows(
    words: Any, rules: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int, high: int, found: Any,
    counts: Any,
) -> None:  # fmt: skip
    """The best parses of each sentence into ``found[r, k]``, best first, and how many there are."""
    t = words.shape[1]
    n = rules.shape[3]
    s = rules.shape[1]
    width = found.shape[1]
    best = np.empty((t, t, s, width))
    todo = np.empty((t + 1, 4), np.int64)
    pairs = np.empty((s, s, width))
    splits = np.empty((s, s, width, 3), np.int64)
    many = np.empty((s, s), np.int64)
    scores = np.empty(width)
    ways = np.empty((width, 3), np.int64)
    tops = np.empty((width, 3), np.int64)
    for r in range(low, high):
        counts[r] = 0
        for k in range(width):
            clear(found[r, k])
        n_words = lengths[r]
        own = rules[min(r, rules.shape[0] - 1)]
        if n_words == 0:
            continue
        for w in range(n_words):
            for i in range(n_words - w):
                here = best[i, i + w]
                for a in range(s):
                    for k in range(width):
                        here[a, k] = -np.inf
                if w == 0:
                    for q in range(s - n):
                        here[n + q, 0] = words[r, i, q]
                    continue
                _top_pairs(best, n, i, i + w, pairs, splits, many)
                for a in range(n):
                    bonus = spans[r, i, i + w, a] if has_spans else 0.0
                    for k in range(_top_parents(pairs, many, own, a, scores, ways)):
                        here[a, k] = scores[k] + bonus
        counts[r] = top_of_lists(best[0, n_words - 1], roots[min(r, roots.shape[0] - 1)], scores, tops)
        for k in range(counts[r]):
            waiting = 1
            row = 0
            todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, n_words - 1, tops[k, 0], tops[k, 1]
            while waiting > 0:
                waiting -= 1
                i, j, a, rank = todo[waiting, 0], todo[waiting, 1], todo[waiting, 2], todo[waiting, 3]
                found[r, k, row, 0], found[r, k, row, 1], found[r, k, row, 2] = i, j, a
                row += 1
                if i < j:
                    _top_pairs(best, n, i, j, pairs, splits, many)
                    _top_parents(pairs, many, own, a, scores, ways)
                    b, c = ways[rank, 0], ways[rank, 1]
                    way = splits[b, c, ways[rank, 2]]
                    right, left = todo[waiting], todo[waiting + 1]
                    right[0], right[1], right[2], right[3] = way[0] + 1, j, c, way[2]
                    left[0], left[1], left[2], left[3] = i, way[0], b, way[1]
                    waiting += 2
