"""A small batch with the same dense rules for all sentences: all widths in one compiled call, up and down.

Rows of tables are ordered as in :mod:`catena.kernels.pcfg.cpu`. They have more columns than symbols, because products
read and write whole vectors (:mod:`catena.kernels.common.tiles`); what lies in these columns is never read as a weight.
With ``n`` nonterminals and ``p`` preterminals, rules have these layouts, each row a multiple of the vector width:

- ``pairs``: row ``b n + c``, column ``a``, for the rules a → b c over nonterminals;
- ``words``: row ``q``, and columns in three parts: ``c n + a`` for a → q c, ``b n + a`` for a → b q, and ``u n + a``
  for a → q u, where ``q`` and ``u`` are preterminals;
- the same with other columns for the way down, where the parent is summed over.

A batch with a weight of 0, or a score of nan or +inf, is left to the general program: a kernel sets ``failed``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.floats import LN2, LN2_HIGH, LN2_LOW, LOG2_E
from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.tiles import LANES, multiply, scale_row
from catena.kernels.common.vector_math import exp_less
from catena.kernels.pcfg import cpu
from catena.kernels.pcfg.cpu import LEAST
from catena.kernels.tree.floats import get_exponent, power_of_two

_greatest: Any = cpu._greatest
_NEAR = 128
"""Rows of a long product that are summed together, so that a tile's columns of them stay in the nearest cache."""


@jit_function()
def _round_up(n: Any) -> Any:
    return (n + LANES - 1) // LANES * LANES


@jit_function()
def _row_of_products(n: Any, p: Any) -> Any:
    """The columns of one of the three parts of ``words``; rows of products are written past ``n`` by a vector."""
    most = max(n, p)
    return _round_up(n * most + _round_up(most))


@jit_function()
def _weigh(scores: Any, weights: Any) -> Any:
    """Write exp(scores - greatest); returns the greatest, 0 if all are -inf, and nan if one is nan or +inf."""
    top = -np.inf
    wrong = 0
    for i in range(scores.shape[0]):
        x = scores[i]
        wrong += not x < np.inf
        top = x if x > top else top
    if wrong > 0:
        return np.nan
    top = top if top > -np.inf else 0.0
    exp_less(scores, top, weights)
    return top


@jit("3", "3", "2", "i1", "i2", "d2", "d1", "d2", "d1", "d2", "d2", "d2", "b1")
def weigh_scores(
    words: Any, rules: Any, roots: Any, lengths: Any, place: Any, word_weights: Any, shift: Any, weights: Any,
    steepest: Any, root_weights: Any, by_pairs: Any, by_words: Any, failed: Any,
) -> None:  # fmt: skip
    """Weights of words, rules and roots, the layouts of rules for the way up, and the row of each span.

    Args:
        word_weights: takes the weights of the words of all sentences, one row for each.
        shift: takes for each sentence the log of what was taken out of the weights of words and roots.
        weights: takes the weights of rules, a row for each parent.
        steepest: takes the log of what was taken out of the rules of each parent.
        by_pairs: takes the layout ``pairs``.
        by_words: takes the layout ``words``.
    """
    b, t, p = words.shape
    n, s = rules.shape[:2]
    part = _row_of_products(n, p)
    bad = 0
    rows = 0
    for w in range(t):
        for r in range(b):
            place[w, r] = rows
            rows += max(lengths[r] - w, 0)
    for g in range(roots.shape[0]):
        top = _weigh(roots[g], root_weights[g])
        bad += top != top
        for r in range(b):
            if roots.shape[0] == 1 or r == g:
                shift[r] = top
    for r in range(b):
        for i in range(lengths[r]):
            row = word_weights[place[0, r] + i]
            row[p:] = 0.0
            top = _weigh(words[r, i], row[:p])
            bad += top != top
            shift[r] += top
            for q in range(p):
                bad += row[q] < 1e-300
    for a in range(n):
        steepest[a] = _weigh(rules[a].reshape(-1), weights[a])
        bad += steepest[a] != steepest[a]
    failed[0] = bad > 0
    for u in range(n):
        for v in range(n):
            for a in range(n):
                by_pairs[u * n + v, a] = weights[a, u * s + v]
    for q in range(p):
        row = by_words[q]
        for v in range(n):
            for a in range(n):
                row[v * n + a] = weights[a, (n + q) * s + v]
                row[part + v * n + a] = weights[a, v * s + n + q]
        for v in range(p):
            for a in range(n):
                row[2 * part + v * n + a] = weights[a, (n + q) * s + n + v]


@jit_function()
def _own(steepest: Any, spans: Any, weights: Any) -> Any:
    """Weights of ``steepest + spans`` for one span, at most 2; returns their exponent."""
    n = steepest.shape[0]
    top = -np.inf
    for a in range(n):
        top = max(top, steepest[a] + spans[a])
    e = np.floor(top * LOG2_E) if top > -np.inf else 0.0
    for a in range(n):
        weights[a] = np.exp((steepest[a] + spans[a] - e * LN2_HIGH) - e * LN2_LOW)
    return np.int64(e)


@jit("4", "b", "d1", "i1", "i2", "d2", "i1", "b1")
def weigh_spans(
    spans: Any, has_spans: bool, steepest: Any, lengths: Any, place: Any, own: Any, own_e: Any, failed: Any
) -> None:
    """``own × 2^own_e``: what each span multiplies its sum with. There is one row if spans have no scores."""
    if not has_spans:
        own_e[0] = _own(steepest, np.zeros(steepest.shape[0]), own[0])
        return
    bad = 0
    scores = np.empty(steepest.shape[0])
    for r in range(lengths.shape[0]):
        for w in range(1, lengths[r]):
            for i in range(lengths[r] - w):
                for a in range(steepest.shape[0]):
                    scores[a] = spans[r, i, i + w, a]
                    bad += not scores[a] < np.inf
                own_e[place[w, r] + i] = _own(steepest, scores, own[place[w, r] + i])
    failed[0] = failed[0] or bad > 0


@jit_function()
def _gather(
    chart: Any, e: Any, place: Any, w: Any, r: Any, i: Any, most: Any, lefts: Any, rights: Any, rows: Any, scaled: Any
) -> Any:
    """Copy the parts, of two words or more, of each split of a span; returns the number of splits.

    Left parts are multiplied with the power of two of their split, and with ``scaled`` right parts, too. ``rows`` takes
    the rows of the parts.
    """
    m = chart.shape[1]
    k = 0
    for u in range(1, w - 1):
        left = place[u, r] + i
        right = place[w - 1 - u, r] + i + u + 1
        scale = power_of_two(e[left] + e[right] - most)
        if scale > 0.0:
            scale_row(chart, left * m, scale, lefts, k * m, m, False)
            scale_row(chart, right * m, scale if scaled else 1.0, rights, k * m, m, False)
            rows[0, k] = left
            rows[1, k] = right
            k += 1
    return k


@jit("d2", "d2", "d2", "d2", "i1", "d2", "i1", "d1", "i2", "i1", "i", "i", "d2", "i1", "d2", "i1", "d2", "d1", "b1")
def fill_chart(
    word_weights: Any, by_pairs: Any, by_words: Any, own: Any, own_e: Any, root_weights: Any, root_rows: Any,
    shift: Any, place: Any, lengths: Any, low: int, high: int, chart: Any, e: Any, pairs: Any, most: Any, products: Any,
    log_z: Any, failed: Any,
) -> None:  # fmt: skip
    """The weights of all spans of the sentences ``low`` to ``high``, and their log Z.

    Args:
        root_rows: for each sentence the row of its root weights.
        pairs: takes the sums of products of parts for each span from four words on.
        most: takes the exponents of the sums of each span.
        products: takes the products of each word with the rules.
    """
    if low == high:
        return
    t = place.shape[0]
    n = own.shape[1]
    p = by_words.shape[0]
    m = chart.shape[1]
    part = _row_of_products(n, p)
    pair_row = pairs.shape[1]
    begin = place[0, low]
    n_words = place[0, high - 1] + lengths[high - 1] - begin
    multiply(
        word_weights, begin * word_weights.shape[1], word_weights.shape[1], 1, by_words, 0, by_words.shape[1], p,
        products, begin * products.shape[1], products.shape[1], n_words, products.shape[1], False,
    )  # fmt: skip
    e[begin : begin + n_words] = 0
    lefts = np.empty(t * m)
    rights = np.empty(t * m)
    rows = np.empty((2, t), np.int64)
    sums = np.zeros((n_words, m))
    one = np.empty(max(m, word_weights.shape[1]))
    first = place[3, 0] if t > 3 else 0
    for w in range(1, t):
        begin = place[w, low]
        n_rows = place[w, high - 1] + max(lengths[high - 1] - w, 0) - begin
        for r in range(low, high):
            if lengths[r] > w:
                _greatest(e, place, w, r, 0, lengths[r] - w, most[place[w, 0] :])
            if w < 3:
                continue
            for i in range(lengths[r] - w):
                row = place[w, r] + i
                k = _gather(chart, e, place, w, r, i, most[row], lefts, rights, rows, False)
                multiply(lefts, 0, 1, m, rights, 0, m, k, pairs, (row - first) * pair_row, n, n, m, False)
        if w >= 3:
            multiply(
                pairs, (begin - first) * pair_row, pair_row, 1, by_pairs, 0, m, n * n, sums, 0, m, n_rows, m, False
            )
        for r in range(low, high):
            for i in range(lengths[r] - w):
                row = place[w, r] + i
                to = (row - begin) * m
                at_first = (place[0, r] + i) * products.shape[1]
                at_last = at_first + w * products.shape[1]
                if w == 1:
                    last = (place[0, r] + i + 1) * word_weights.shape[1]
                    multiply(word_weights, last, 0, 1, products, at_first + 2 * part, n, p, sums, to, m, 1, m, False)
                else:
                    left = place[w - 1, r] + i
                    scale_row(chart, (left + 1) * m, power_of_two(e[left + 1] - most[row]), one, 0, m, False)
                    multiply(one, 0, 0, 1, products, at_first, n, n, sums, to, m, 1, m, w >= 3)
                    scale_row(chart, left * m, power_of_two(e[left] - most[row]), one, 0, m, False)
                    multiply(one, 0, 0, 1, products, at_last + part, n, n, sums, to, m, 1, m, True)
                alone = 0 if own.shape[0] == 1 else row
                top = 0.0
                small = 0
                for a in range(n):
                    x = sums[row - begin, a] * own[alone, a]
                    chart[row, a] = x
                    top = max(top, x)
                    small += not x >= LEAST
                if small > 0:
                    failed[low] = True
                    return
                shift_here = get_exponent(top, 0)
                scale = power_of_two(-shift_here)
                for a in range(n):
                    chart[row, a] *= scale
                for a in range(n, m):
                    chart[row, a] = 0.0
                e[row] = shift_here + most[row] + own_e[alone]
    for r in range(low, high):
        total = 0.0
        length = lengths[r]
        weights = root_weights[root_rows[r]]
        if length > 1:
            row = place[length - 1, r]
            for a in range(n):
                total += weights[a] * chart[row, a]
            log_z[r] = np.log(total) + e[row] * LN2 + shift[r]
        elif length == 1:
            for q in range(p):
                total += weights[n + q] * word_weights[place[0, r], q]
            log_z[r] = np.log(total) + shift[r]
        failed[low] = failed[low] or not total >= LEAST


@jit("d2", "d2", "d2", "d2", "d2")
def weigh_back(weights: Any, down_left: Any, down_right: Any, down_words: Any, back_words: Any) -> None:
    """The layouts of rules for the way down.

    Args:
        weights: of the rules, a row for each parent.
        down_left: takes, in row ``a``, the column ``b n + c`` for a → b c over nonterminals.
        down_right: takes the same with the column ``c n + b``.
        down_words: takes the layout ``words`` with the parent before the other child in each column.
        back_words: takes the layout ``words`` with rows and columns exchanged.
    """
    n = weights.shape[0]
    p = down_words.shape[0]
    s = n + p
    part = _row_of_products(n, p)
    for a in range(n):
        for u in range(n):
            for v in range(n):
                down_left[a, u * n + v] = weights[a, u * s + v]
        for v in range(n):
            for u in range(n):
                down_right[a, v * n + u] = weights[a, u * s + v]
        for q in range(p):
            for v in range(n):
                down_words[q, a * n + v] = weights[a, (n + q) * s + v]
                down_words[q, part + a * n + v] = weights[a, v * s + n + q]
            for v in range(p):
                down_words[q, 2 * part + a * p + v] = weights[a, (n + q) * s + n + v]
        for v in range(n):
            for q in range(p):
                back_words[v * n + a, q] = weights[a, (n + q) * s + v]
                back_words[part + v * n + a, q] = weights[a, v * s + n + q]
        for v in range(p):
            for q in range(p):
                back_words[2 * part + v * n + a, q] = weights[a, (n + q) * s + n + v]


@jit_function()
def _scatter(x: Any, rows: Any, k: Any, gradients: Any) -> None:
    m = gradients.shape[1]
    for u in range(k):
        scale_row(x, u * m, 1.0, gradients, rows[u] * m, m, True)


@jit(
    "d2", "d2", "d2", "d2", "d2", "d2", "i1", "d2", "i1", "d1", "i2", "i1", "i", "i", "d2", "i1", "i1", "d2", "d2",
    "d2", "d2", "d2"
)  # fmt: skip
def chart_gradients(
    word_weights: Any, down_left: Any, down_right: Any, down_words: Any, back_words: Any, own: Any, own_e: Any,
    root_weights: Any, root_rows: Any, scale: Any, place: Any, lengths: Any, low: int, high: int, chart: Any, e: Any,
    most: Any, gradients: Any, onward: Any, by_words: Any, by_products: Any, by_roots: Any,
) -> None:  # fmt: skip
    """The gradients of log Z times ``scale`` of the sentences ``low`` to ``high``.

    Args:
        gradients: takes those by the weights of spans, and is zero.
        onward: takes those by the sums over rules, and is zero.
        by_words: takes those by the weights of words, and is zero.
        by_products: takes those by the products of words with rules, and is zero.
        by_roots: takes those by the scores of roots, a row for each sentence.
    """
    if low == high:
        return
    t = place.shape[0]
    n = own.shape[1]
    p = down_words.shape[0]
    m = chart.shape[1]
    word_row = word_weights.shape[1]
    size = by_products.shape[1]
    part = _row_of_products(n, p)
    pair_row = down_left.shape[1]
    begin = place[0, low]
    n_words = place[0, high - 1] + lengths[high - 1] - begin
    products = np.empty((n_words, size))
    multiply(
        word_weights, begin * word_row, word_row, 1, down_words, 0, size, p, products, 0, size, n_words, size, False
    )
    for r in range(low, high):
        _open_root(word_weights, root_weights[root_rows[r]], scale[r], place, lengths[r], r, n, p, chart, gradients,
                   by_words, by_roots[r])  # fmt: skip
    lefts = np.empty(t * m)
    rights = np.empty(t * m)
    parts = np.empty(t * m)
    rows = np.empty((2, t), np.int64)
    by_left = np.empty((n_words, pair_row))
    by_right = np.empty((n_words, pair_row))
    one = np.empty(max(m, word_row))
    for w in range(t - 1, 0, -1):
        start = place[w, low]
        n_rows = place[w, high - 1] + max(lengths[high - 1] - w, 0) - start
        for row in range(start, start + n_rows):
            alone = 0 if own.shape[0] == 1 else row
            factor = power_of_two(most[row] + own_e[alone] - e[row])
            for a in range(n):
                onward[row, a] = gradients[row, a] * own[alone, a] * factor
        if w >= 3:
            multiply(onward, start * m, m, 1, down_left, 0, pair_row, n, by_left, 0, pair_row, n_rows, pair_row, False)
            multiply(
                onward, start * m, m, 1, down_right, 0, pair_row, n, by_right, 0, pair_row, n_rows, pair_row, False
            )
        for r in range(low, high):
            for i in range(lengths[r] - w):
                row = place[w, r] + i
                if w >= 3:
                    at = (row - start) * pair_row
                    k = _gather(chart, e, place, w, r, i, most[row], lefts, rights, rows, True)
                    multiply(lefts, 0, m, 1, by_left, at, n, n, parts, 0, m, k, m, False)
                    _scatter(parts, rows[1], k, gradients)
                    multiply(rights, 0, m, 1, by_right, at, n, n, parts, 0, m, k, m, False)
                    _scatter(parts, rows[0], k, gradients)
                first = place[0, r] + i
                last = first + w
                at_first = (first - begin) * size
                at_last = (last - begin) * size
                if w == 1:
                    factor = power_of_two(-most[row])
                    scale_row(onward, row * m, factor, one, 0, m, False)
                    multiply(one, 0, 0, 1, products, at_first + 2 * part, p, n, by_words, last * word_row, word_row, 1,
                             word_row, True)  # fmt: skip
                    multiply(word_weights, last * word_row, 1, 0, one, 0, 0, 1, by_products, first * size + 2 * part, n,
                             p, m, True)  # fmt: skip
                    continue
                left = place[w - 1, r] + i
                right = left + 1
                scale_row(onward, row * m, power_of_two(e[right] - most[row]), one, 0, m, False)
                multiply(one, 0, 0, 1, products, at_first, n, n, gradients, right * m, m, 1, m, True)
                multiply(chart, right * m, 1, 0, one, 0, 0, 1, by_products, first * size, n, n, m, True)
                scale_row(onward, row * m, power_of_two(e[left] - most[row]), one, 0, m, False)
                multiply(one, 0, 0, 1, products, at_last + part, n, n, gradients, left * m, m, 1, m, True)
                multiply(chart, left * m, 1, 0, one, 0, 0, 1, by_products, last * size + part, n, n, m, True)
    multiply(
        by_products, begin * size, size, 1, back_words, 0, word_row, size, by_words, begin * word_row, word_row,
        n_words, word_row, True,
    )  # fmt: skip


@jit_function()
def _open_root(
    word_weights: Any, weights: Any, scale: Any, place: Any, length: Any, r: Any, n: Any, p: Any, chart: Any,
    gradients: Any, by_words: Any, by_roots: Any,
) -> None:  # fmt: skip
    """The gradients by what covers a whole sentence, and by the scores of its roots."""
    by_roots[:] = 0.0
    from_symbol = 0 if length > 1 else n
    row = place[length - 1, r]
    here = chart[row, :n] if length > 1 else word_weights[row, :p]
    to = gradients[row] if length > 1 else by_words[row]
    total = 0.0
    for a in range(here.shape[0]):
        total += weights[from_symbol + a] * here[a]
    for a in range(here.shape[0]):
        to[a] = scale / total * weights[from_symbol + a]
        by_roots[from_symbol + a] = to[a] * here[a]


@jit("3", "3", "2", "4", "b", "d2", "d2", "d2", "d2", "d2", "d2", "d2", "d2", "d2", "i2", "i1")
def gather_gradients(
    by_scores_words: Any, by_scores_rules: Any, by_scores_roots: Any, by_scores_spans: Any, has_spans: bool,
    word_weights: Any, weights: Any, chart: Any, pairs: Any, gradients: Any, onward: Any, by_words: Any,
    by_products: Any, by_roots: Any, place: Any, lengths: Any,
) -> None:  # fmt: skip
    """The gradients by the scores, from those by the weights."""
    b, _, p = by_scores_words.shape
    n, s = by_scores_rules.shape[:2]
    m = chart.shape[1]
    part = _row_of_products(n, p)
    size = by_products.shape[1]
    word_row = word_weights.shape[1]
    pair_row = pairs.shape[1]
    n_words = word_weights.shape[0]
    by_rules = np.zeros((n, pair_row))
    first = chart.shape[0] - pairs.shape[0]
    for k in range(0, pairs.shape[0], _NEAR):
        near = min(_NEAR, pairs.shape[0] - k)
        multiply(onward, (first + k) * m, 1, m, pairs, k * pair_row, pair_row, near, by_rules, 0, pair_row, n, pair_row,
                 True)  # fmt: skip
    by_word_rules = np.zeros((p, size))
    multiply(word_weights, 0, 1, word_row, by_products, 0, size, n_words, by_word_rules, 0, size, p, size, False)
    for a in range(n):
        to = by_scores_rules[a]
        for u in range(n):
            for v in range(n):
                to[u, v] = by_rules[a, u * n + v] * weights[a, u * s + v]
            for q in range(p):
                to[u, n + q] = by_word_rules[q, part + u * n + a] * weights[a, u * s + n + q]
        for q in range(p):
            at = (n + q) * s
            for v in range(n):
                to[n + q, v] = by_word_rules[q, v * n + a] * weights[a, at + v]
            for v in range(p):
                to[n + q, n + v] = by_word_rules[q, 2 * part + v * n + a] * weights[a, at + n + v]
    by_scores_words[:] = 0
    for r in range(b):
        for i in range(lengths[r]):
            row = place[0, r] + i
            for q in range(p):
                by_scores_words[r, i, q] = by_words[row, q] * word_weights[row, q]
        if by_scores_roots.shape[0] == 1 and r > 0:
            by_roots[0] += by_roots[r]
        else:
            by_scores_roots[r] = by_roots[r]
        if has_spans:
            by_scores_spans[r] = 0
            for w in range(1, lengths[r]):
                for i in range(lengths[r] - w):
                    row = place[w, r] + i
                    for a in range(n):
                        by_scores_spans[r, i, i + w, a] = gradients[row, a] * chart[row, a]
    if by_scores_roots.shape[0] == 1:
        by_scores_roots[0] = by_roots[0]
