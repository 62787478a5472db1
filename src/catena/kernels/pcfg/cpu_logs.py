"""Sums over parses in log space, sentence by sentence: any range of scores, and slow. The rescue of the fast
ones.

Charts here are ``[i, j, a]`` over all symbols. The way down shares out probabilities, each by its part in the
sum that was made on the way up, so nothing can overflow or vanish that matters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import jit


@njit(nogil=True)
def _log_sum(v: Any) -> float:
    top = -np.inf
    for x in v:
        top = x if x > top else top
    if top == -np.inf:
        return top
    total = 0.0
    for x in v:
        total += np.exp(x - top)
    return top + np.log(total)


@njit(nogil=True)
def _start(words: Any, n_words: int, beta: Any) -> None:
    n = beta.shape[2] - words.shape[1]
    for i in range(n_words):
        for a in range(n):
            beta[i, i, a] = -np.inf
        for q in range(words.shape[1]):
            beta[i, i, n + q] = words[i, q]


@njit(nogil=True)
def _from_top(roots: Any, beta: Any, last: int, scale: float, marginals: Any, by_roots: Any) -> float:
    """log Z; the probabilities of the whole sentence's symbols, times ``scale``."""
    terms = roots + beta[0, last]
    log_z = _log_sum(terms)
    if log_z > -np.inf:
        for a in range(terms.shape[0]):
            marginals[0, last, a] = scale * np.exp(terms[a] - log_z)
            by_roots[a] += marginals[0, last, a]
    return log_z


@njit(nogil=True)
def _clear(marginals: Any, n_words: int) -> None:
    for i in range(n_words):
        for j in range(n_words):
            for a in range(marginals.shape[2]):
                marginals[i, j, a] = 0.0


@njit(nogil=True)
def _hand_over(marginals: Any, n_words: int, n: int, by_words: Any, by_spans: Any, has_spans: bool) -> None:
    """Probabilities of words and of spans to where they are wanted."""
    for i in range(n_words):
        for q in range(by_words.shape[1]):
            by_words[i, q] = marginals[i, i, n + q]
        if has_spans:
            for j in range(i + 1, n_words):
                for a in range(n):
                    by_spans[i, j, a] = marginals[i, j, a]


# --- dense rules --------------------------------------------------------------------------------------------
@njit(nogil=True)
def _log_pairs(beta: Any, i: int, j: int, pairs: Any, tops: Any) -> None:
    """``pairs[b, c]``: the log of Σ over splits of weight × weight."""
    s = beta.shape[2]
    for b in range(s):
        for c in range(s):
            tops[b, c] = -np.inf
            pairs[b, c] = 0.0
    for m in range(i, j):
        for b in range(s):
            if beta[i, m, b] > -np.inf:
                for c in range(s):
                    x = beta[i, m, b] + beta[m + 1, j, c]
                    tops[b, c] = x if x > tops[b, c] else tops[b, c]
    for m in range(i, j):
        for b in range(s):
            if beta[i, m, b] > -np.inf:
                for c in range(s):
                    if tops[b, c] > -np.inf:
                        pairs[b, c] += np.exp(beta[i, m, b] + beta[m + 1, j, c] - tops[b, c])
    for b in range(s):
        for c in range(s):
            pairs[b, c] = tops[b, c] + np.log(pairs[b, c]) if pairs[b, c] > 0 else -np.inf


@njit(nogil=True)
def dense_inside(words: Any, rules: Any, spans: Any, has_spans: bool, n_words: int, beta: Any) -> None:
    """``beta[i, j, a]``: the log of all parses of the words ``i`` to ``j`` with ``a`` on top."""
    n, s = rules.shape[:2]
    pairs = np.empty((s, s))
    tops = np.empty((s, s))
    terms = np.empty(s * s)
    _start(words, n_words, beta)
    for w in range(1, n_words):
        for i in range(n_words - w):
            j = i + w
            _log_pairs(beta, i, j, pairs, tops)
            for a in range(s):
                beta[i, j, a] = -np.inf
            for a in range(n):
                for b in range(s):
                    for c in range(s):
                        terms[b * s + c] = rules[a, b, c] + pairs[b, c]
                beta[i, j, a] = _log_sum(terms) + (spans[i, j, a] if has_spans else 0.0)


@njit(nogil=True)
def _dense_outside(
    rules: Any, spans: Any, has_spans: bool, n_words: int, beta: Any, marginals: Any, by_rules: Any
) -> None:
    n, s = rules.shape[:2]
    pairs = np.empty((s, s))
    tops = np.empty((s, s))
    mass = np.empty((s, s))
    for w in range(n_words - 1, 0, -1):
        for i in range(n_words - w):
            j = i + w
            _log_pairs(beta, i, j, pairs, tops)
            for b in range(s):
                for c in range(s):
                    mass[b, c] = 0.0
            for a in range(n):
                if marginals[i, j, a] != 0:
                    inner = beta[i, j, a] - (spans[i, j, a] if has_spans else 0.0)
                    for b in range(s):
                        for c in range(s):
                            share = marginals[i, j, a] * np.exp(rules[a, b, c] + pairs[b, c] - inner)
                            by_rules[a, b, c] += share
                            mass[b, c] += share
            for b in range(s):
                for c in range(s):
                    if mass[b, c] != 0:
                        for m in range(i, j):
                            share = mass[b, c] * np.exp(beta[i, m, b] + beta[m + 1, j, c] - pairs[b, c])
                            marginals[i, m, b] += share
                            marginals[m + 1, j, c] += share


@jit("d3", "d4", "d2", "d4", "b", "i1", "d1", "b", "d1", "d3", "d4", "d2", "d4")
def dense_log_rows(
    words: Any, rules: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, scale: Any, both_ways: bool,
    log_z: Any, by_words: Any, by_rules: Any, by_roots: Any, by_spans: Any,
) -> None:  # fmt: skip
    """log Z of each sentence and, with ``both_ways``, its gradient times ``scale``."""
    rows, t, _ = words.shape
    n, s = rules.shape[1:3]
    beta = np.empty((t, t, s))
    marginals = np.empty((t, t, s))
    for r in range(rows):
        n_words = lengths[r]
        g = min(r, rules.shape[0] - 1)
        at = min(r, spans.shape[0] - 1)
        log_z[r] = -np.inf
        if n_words == 0:
            continue
        dense_inside(words[r], rules[g], spans[at], has_spans, n_words, beta)
        _clear(marginals, n_words)
        edge = min(r, roots.shape[0] - 1)
        log_z[r] = _from_top(roots[edge], beta, n_words - 1, scale[r], marginals, by_roots[edge])
        if both_ways and log_z[r] > -np.inf:
            _dense_outside(rules[g], spans[at], has_spans, n_words, beta, marginals, by_rules[g])
            _hand_over(marginals, n_words, n, by_words[r], by_spans[at], has_spans)


# --- low-rank rules -----------------------------------------------------------------------------------------
@njit(nogil=True)
def _gather(v: Any, best: bool) -> float:
    """The greatest, or the log of the sum of exp."""
    if not best:
        return _log_sum(v)
    top = -np.inf
    for x in v:
        top = x if x > top else top
    return top


@njit(nogil=True)
def _project(table: Any, beta: Any, best: bool, found: Any) -> None:
    """``found[q]``: what rank ``q`` finds in a span with these symbols."""
    for q in range(table.shape[0]):
        found[q] = _gather(table[q] + beta, best)


@njit(nogil=True)
def merge_logs(left: Any, right: Any, i: int, j: int, best: bool, terms: Any, merged: Any) -> None:
    """``merged[q]``: what rank ``q`` finds in the two parts of a span, over all splits."""
    for q in range(merged.shape[0]):
        for m in range(i, j):
            terms[m - i] = left[i, m, q] + right[m + 1, j, q]
        merged[q] = _gather(terms[: j - i], best)


@njit(nogil=True)
def low_rank_inside(
    words: Any, parents: Any, lefts: Any, rights: Any, spans: Any, has_spans: bool, n_words: int, best: bool, beta: Any,
    left: Any, right: Any,
) -> None:  # fmt: skip
    """``beta`` as above, or the best in place of sums; ``left[i, j, q]``, ``right[i, j, q]``: what rank ``q`` finds."""
    n, ranks = parents.shape
    merged = np.empty(ranks)
    terms = np.empty(n_words)
    _start(words, n_words, beta)
    for w in range(n_words):
        for i in range(n_words - w):
            j = i + w
            if w > 0:
                merge_logs(left, right, i, j, best, terms, merged)
                for a in range(beta.shape[2]):
                    beta[i, j, a] = -np.inf
                for a in range(n):
                    beta[i, j, a] = _gather(parents[a] + merged, best) + (spans[i, j, a] if has_spans else 0.0)
            _project(lefts, beta[i, j], best, left[i, j])
            _project(rights, beta[i, j], best, right[i, j])


@njit(nogil=True)
def _project_back(table: Any, beta: Any, found: Any, by_found: Any, by_table: Any, marginals: Any) -> None:
    for q in range(table.shape[0]):
        if by_found[q] != 0:
            for b in range(table.shape[1]):
                share = by_found[q] * np.exp(table[q, b] + beta[b] - found[q])
                by_table[q, b] += share
                marginals[b] += share


@njit(nogil=True)
def _low_rank_outside(
    parents: Any, lefts: Any, rights: Any, spans: Any, has_spans: bool, n_words: int, beta: Any, left: Any, right: Any,
    marginals: Any, by_parents: Any, by_lefts: Any, by_rights: Any,
) -> None:  # fmt: skip
    n, ranks = parents.shape
    merged = np.empty(ranks)
    mass = np.empty(ranks)
    terms = np.empty(n_words)
    by_left = np.zeros((n_words, n_words, ranks))
    by_right = np.zeros((n_words, n_words, ranks))
    for w in range(n_words - 1, -1, -1):
        for i in range(n_words - w):
            j = i + w
            _project_back(lefts, beta[i, j], left[i, j], by_left[i, j], by_lefts, marginals[i, j])
            _project_back(rights, beta[i, j], right[i, j], by_right[i, j], by_rights, marginals[i, j])
            if w == 0:
                continue
            merge_logs(left, right, i, j, False, terms, merged)
            for q in range(ranks):
                mass[q] = 0.0
            for a in range(n):
                if marginals[i, j, a] != 0:
                    inner = beta[i, j, a] - (spans[i, j, a] if has_spans else 0.0)
                    for q in range(ranks):
                        share = marginals[i, j, a] * np.exp(parents[a, q] + merged[q] - inner)
                        by_parents[a, q] += share
                        mass[q] += share
            for q in range(ranks):
                if mass[q] != 0:
                    for m in range(i, j):
                        share = mass[q] * np.exp(left[i, m, q] + right[m + 1, j, q] - merged[q])
                        by_left[i, m, q] += share
                        by_right[m + 1, j, q] += share


@jit("d3", "d3", "d3", "d3", "d2", "d4", "b", "i1", "d1", "b", "d1", "d3", "d3", "d3", "d3", "d2", "d4")
def low_rank_log_rows(
    words: Any, parents: Any, lefts: Any, rights: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any,
    scale: Any, both_ways: bool, log_z: Any, by_words: Any, by_parents: Any, by_lefts: Any, by_rights: Any,
    by_roots: Any, by_spans: Any,
) -> None:  # fmt: skip
    """log Z of each sentence and, with ``both_ways``, its gradient times ``scale``."""
    rows, t, _ = words.shape
    n = parents.shape[1]
    ranks = parents.shape[2]
    s = lefts.shape[2]
    beta = np.empty((t, t, s))
    marginals = np.empty((t, t, s))
    left = np.empty((t, t, ranks))
    right = np.empty((t, t, ranks))
    for r in range(rows):
        n_words = lengths[r]
        at = min(r, spans.shape[0] - 1)
        a = min(r, parents.shape[0] - 1)
        b = min(r, lefts.shape[0] - 1)
        c = min(r, rights.shape[0] - 1)
        log_z[r] = -np.inf
        if n_words == 0:
            continue
        low_rank_inside(
            words[r], parents[a], lefts[b], rights[c], spans[at], has_spans, n_words, False, beta, left, right
        )
        _clear(marginals, n_words)
        edge = min(r, roots.shape[0] - 1)
        log_z[r] = _from_top(roots[edge], beta, n_words - 1, scale[r], marginals, by_roots[edge])
        if both_ways and log_z[r] > -np.inf:
            _low_rank_outside(
                parents[a], lefts[b], rights[c], spans[at], has_spans, n_words, beta, left, right, marginals,
                by_parents[a], by_lefts[b], by_rights[c],
            )  # fmt: skip
            _hand_over(marginals, n_words, n, by_words[r], by_spans[at], has_spans)
