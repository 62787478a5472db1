"""The best parses and samples, for dense rules on the CPU. Backtracking recomputes its choices.

Arguments are as in :mod:`catena.kernels.pcfg`. Charts are ``[i, j, a]`` over all symbols; parses are written as rows
``(first, last, symbol)`` in preorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from catena.kernels.floats import LN2
from catena.kernels.jit import jit
from catena.kernels.ops import draws, fold_vmap, torch_operator
from catena.kernels.pcfg import DENSE
from catena.kernels.pcfg_logs import dense_inside
from catena.kernels.pcfg_solve import build_problem, solve_inside
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree_search import clear


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
            here, x = pairs[b], left[b]
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
    s, top = best.shape[2], -np.inf
    way = (-1, -1, -1)
    for m in range(i, j):
        b_low, b_high = symbol_range(m - i + 1, n, s)
        c_low, c_high = symbol_range(j - m, n, s)
        for b in range(b_low, b_high):
            for c in range(c_low, c_high):
                value = best[i, m, b] + best[m + 1, j, c] + rules[b, c, a]
                if value > top:
                    top, way = value, (m, b, c)
    return way


@jit("d3", "d4", "d2", "d4", "b", "i1", "i", "i", "i3")
def best_rows(
    words: Any, rules: Any, roots: Any, spans: Any, has_spans: bool, lengths: Any, low: int, high: int, found: Any
) -> None:
    """The best parse of each sentence; ``rules`` are ``[g, b, c, a]``, the parent last."""
    t, n, s = words.shape[1], rules.shape[3], rules.shape[1]
    best, pairs, todo = np.empty((t, t, s)), np.empty((s, s)), np.empty((t + 1, 3), np.int64)
    for r in range(low, high):
        clear(found[r])
        n_words, own = lengths[r], rules[min(r, rules.shape[0] - 1)]
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
        edge, top, a = min(r, roots.shape[0] - 1), -np.inf, -1
        for q in range(s):
            value = roots[edge, q] + best[0, n_words - 1, q]
            if value > top:
                top, a = value, q
        if a < 0:
            continue
        waiting, row = 1, 0
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


# --- samples ------------------------------------------------------------------------------------------------


@njit(nogil=True)
def draw_log(terms: Any, uniform: float) -> int:
    """A number drawn in proportion to exp(terms)."""
    top, total = -np.inf, 0.0
    for x in terms:
        top = x if x > top else top
    for x in terms:
        total += np.exp(x - top)
    found, running = -1, 0.0
    for k in range(terms.shape[0]):
        if terms[k] > -np.inf:
            found = k
            running += np.exp(terms[k] - top)
            if running > uniform * total:
                break
    return found


@njit(nogil=True)
def _unpack(words: Any, chart: Any, e: Any, t: int, n_words: int, beta: Any) -> None:
    """The logs of weights, from a chart of :mod:`catena.kernels.pcfg_solve`."""
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
        top, total = -np.inf, 0.0
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
    t, n, s = words.shape[1], rules.shape[1], rules.shape[2]
    beta, weights, tops = np.empty((t, t, s)), np.empty((t, t, s)), np.empty((t, t))
    sums, terms, todo = np.empty(t), np.empty(s * s), np.empty((t + 1, 3), np.int64)
    for r in range(low, high):
        for k in range(found.shape[0]):
            clear(found[k, r])
        n_words, g = lengths[r], min(r, rules.shape[0] - 1)
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
            waiting, row, drawn = 1, 0, 1
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


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("pcfg_best")
def best(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor) -> Tensor:
    """The spans of the best parse of each row, ``[b, 2 t - 1, 3]``."""
    given = search_arrays(words, rules, roots, spans, lengths)
    b, t, n, s = *words.shape[:2], *rules.shape[1:3]
    found = torch.empty((b, 2 * t - 1, 3), dtype=torch.int64)
    result = found.numpy()
    in_row_blocks(lambda low, high: best_rows(*given, low, high, result), b, b * t * t * s * s * (t + 3 * n) // 6)
    return found


@torch_operator("pcfg_sample")
def sample(
    words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor, uniforms: Tensor
) -> Tensor:
    """Parses drawn from each row, ``[k, b, 2 t - 1, 3]``, by uniform numbers ``[k, b, 2 t]``."""
    problem = build_problem(words, (rules,), roots, spans, lengths)
    solved = solve_inside(problem, DENSE, keep=True)
    (b, t), n = words.shape[:2], rules.shape[1]
    found = torch.empty((len(uniforms), b, 2 * t - 1, 3), dtype=torch.int64)
    dense = problem.rules[0]
    greatest = dense.amax((-2, -1), keepdim=True)
    weighed = (dense - torch.where(greatest == -torch.inf, 0.0, greatest)).exp()
    # Words as the chart has them: without the greatest of each.
    scores = problem.words - torch.where(problem.words.amax(-1) == -torch.inf, 0.0, problem.words.amax(-1))[..., None]
    spans_or_none = problem.words.new_zeros(1, 1, 1, 1) if problem.spans is None else problem.spans
    tensors = (scores, dense, weighed, problem.roots, spans_or_none)
    more = (solved.exact, solved.chart, solved.e)
    given = (
        *(x.numpy() for x in tensors),
        problem.spans is not None,
        problem.lengths.numpy(),
        *(x.numpy() for x in more),
    )
    results = (uniforms.contiguous().numpy(), found.numpy())
    in_row_blocks(lambda low, high: sample_rows(*given, low, high, *results), b, b * len(uniforms) * t * t * n * n)
    return found


draws(sample, lambda scores, _: (2 * scores.shape[1] - 1, 3))


def search_arrays(
    words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> tuple[Any, ...]:
    """What the loops of searches read: rules with the parent last."""
    problem = build_problem(words, (rules,), roots, spans, lengths)
    parent_last = problem.rules[0].permute(0, 2, 3, 1).contiguous()
    spans_or_none = problem.words.new_zeros(1, 1, 1, 1) if problem.spans is None else problem.spans
    tensors = (problem.words, parent_last, problem.roots, spans_or_none)
    return *(x.numpy() for x in tensors), problem.spans is not None, problem.lengths.numpy()


@best.register_fake
def _(words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor) -> Tensor:
    return words.new_empty((words.shape[0], 2 * words.shape[1] - 1, 3), dtype=torch.int64)


fold_vmap(best)
