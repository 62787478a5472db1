"""All widths of a small batch in one compiled call, up and down, for dense rules that are the same for all sentences.

The tables of :mod:`catena.kernels.pcfg.cpu` are kept from the way up for the way down. The products with the rules are
loops too: the matrices of one width are so small that a call of a library takes longer than the product.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import numpy as np

from catena.kernels.common.jit import SUMS, jit, jit_function
from catena.kernels.pcfg import cpu

_pair_spans: Any = jit_function()(unwrap(cpu.pair_spans))
_add_words: Any = jit_function()(unwrap(cpu.add_words))
_rescale_spans: Any = jit_function()(unwrap(cpu.rescale_spans))
_open_spans: Any = jit_function()(unwrap(cpu.open_spans))
_pairs_back: Any = jit_function()(unwrap(cpu.pairs_back))
_backward_words: Any = jit_function()(unwrap(cpu.backward_words))


@jit_function()
def _block(place: Any, lengths: Any, w: int) -> Any:
    """The first row of the spans of ``w + 1`` words, and the number of these rows."""
    rows = 0
    for r in range(lengths.shape[0]):
        rows += max(lengths[r] - w, 0)
    return place[w, 0], rows


@jit_function(SUMS)
def _sum_over_pairs(pairs: Any, matrix: Any, sums: Any) -> None:
    """``sums[a]`` = Σ ``pairs[x] matrix[a, x]``, four parents at a time."""
    n, size = matrix.shape
    a = 0
    while a + 4 <= n:
        m0 = matrix[a]
        m1 = matrix[a + 1]
        m2 = matrix[a + 2]
        m3 = matrix[a + 3]
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for x in range(size):
            s0 += pairs[x] * m0[x]
            s1 += pairs[x] * m1[x]
            s2 += pairs[x] * m2[x]
            s3 += pairs[x] * m3[x]
        sums[a] = s0
        sums[a + 1] = s1
        sums[a + 2] = s2
        sums[a + 3] = s3
        a += 4
    while a < n:
        m0 = matrix[a]
        s0 = 0.0
        for x in range(size):
            s0 += pairs[x] * m0[x]
        sums[a] = s0
        a += 1


@jit_function(SUMS)
def _spread_over_pairs(onward: Any, matrix: Any, by_pairs: Any) -> None:
    """``by_pairs[x]`` = Σ ``onward[a] matrix[a, x]``, four parents at a time."""
    n, size = matrix.shape
    for x in range(size):
        by_pairs[x] = 0.0
    a = 0
    while a + 4 <= n:
        v0 = onward[a]
        v1 = onward[a + 1]
        v2 = onward[a + 2]
        v3 = onward[a + 3]
        m0 = matrix[a]
        m1 = matrix[a + 1]
        m2 = matrix[a + 2]
        m3 = matrix[a + 3]
        for x in range(size):
            by_pairs[x] += (v0 * m0[x] + v1 * m1[x]) + (v2 * m2[x] + v3 * m3[x])
        a += 4
    while a < n:
        v0 = onward[a]
        m0 = matrix[a]
        for x in range(size):
            by_pairs[x] += v0 * m0[x]
        a += 1


@jit("d2", "d2", "d2")
def multiply(x: Any, matrix: Any, y: Any) -> None:
    """y = x matrix."""
    for r in range(x.shape[0]):
        _spread_over_pairs(x[r], matrix, y[r])


@jit("d2", "d2", "d2", fastmath=SUMS)
def add_product(x: Any, y: Any, total: Any) -> None:
    """total += xᵀ y, four rows at a time."""
    size = y.shape[1]
    r = 0
    while r + 4 <= x.shape[0]:
        y0 = y[r]
        y1 = y[r + 1]
        y2 = y[r + 2]
        y3 = y[r + 3]
        for a in range(x.shape[1]):
            x0 = x[r, a]
            x1 = x[r + 1, a]
            x2 = x[r + 2, a]
            x3 = x[r + 3, a]
            to = total[a]
            for i in range(size):
                to[i] += (x0 * y0[i] + x1 * y1[i]) + (x2 * y2[i] + x3 * y3[i])
        r += 4
    while r < x.shape[0]:
        y0 = y[r]
        for a in range(x.shape[1]):
            x0 = x[r, a]
            to = total[a]
            for i in range(size):
                to[i] += x0 * y0[i]
        r += 1


@jit("d2", "d2", "d2")
def multiply_transposed(x: Any, matrix: Any, y: Any) -> None:
    """y = x matrixᵀ."""
    for r in range(x.shape[0]):
        _sum_over_pairs(x[r], matrix, y[r])


@jit("d2", "d2", "i1", "d3", "d3", "d3", "i2", "i1", "d2", "d2", "i1", "i", "i", "i", "d2", "i1", "b1")
def fill_chart(
    chart: Any, words: Any, e: Any, word_left: Any, word_right: Any, word_both: Any, place: Any, lengths: Any,
    matrix: Any, own: Any, own_e: Any, first: int, low: int, high: int, pairs: Any, most: Any, suspect: Any,
) -> None:  # fmt: skip
    """The weights of all spans of the sentences ``low`` to ``high`` from those of their words.

    Args:
        matrix: the weights of rules, ``[n, n × n]``: parents by pairs of nonterminals.
        first: the first row of the spans of four words, where ``pairs`` begins.
        pairs: takes the pairs of each span from four words on.
        most: takes the exponents of the sums of each span.
    """
    if low == high:
        return
    n = chart.shape[1]
    sums = np.empty((_block(place, lengths, 0)[1], n))
    for w in range(1, place.shape[0]):
        begin, rows = _block(place, lengths, w)
        most_here = most[begin : begin + rows]
        pairs_here = pairs[begin - first : begin - first + rows] if w >= 3 else pairs[:0]
        _pair_spans(chart, e, place, lengths, w, low, high, most_here, pairs_here)
        for r in range(low, high):
            for i in range(lengths[r] - w):
                at = place[w, r] + i - begin
                if w >= 3:
                    _sum_over_pairs(pairs_here[at], matrix, sums[at])
                else:
                    sums[at] = 0.0
        _add_words(
            chart, words, e, word_left, word_right, word_both, place, lengths, w, low, high, most_here, sums
        )  # fmt: skip
        _rescale_spans(sums, most_here, own, own_e, place, lengths, w, low, high, False, chart, e, suspect)


@jit(
    "d2", "d2", "i1", "d3", "d3", "d3", "i2", "i1", "d2", "d2", "i1", "i", "i", "i1", "d2", "d2", "d2", "d3", "d3", "d3"
)  # fmt: skip
def empty_chart(
    chart: Any, words: Any, e: Any, word_left: Any, word_right: Any, word_both: Any, place: Any, lengths: Any,
    matrix: Any, own: Any, own_e: Any, low: int, high: int, most: Any, onward: Any, gradients: Any, by_words: Any,
    by_left: Any, by_right: Any, by_both: Any,
) -> None:  # fmt: skip
    """What :func:`fill_chart` hands back, from the gradients by whole sentences.

    Args:
        onward: takes the gradients of the sums over rules, for all rows of the chart.
    """
    if low == high:
        return
    n = chart.shape[1]
    by_pairs = np.empty((_block(place, lengths, 0)[1], n, n))
    for w in range(place.shape[0] - 1, 0, -1):
        begin, rows = _block(place, lengths, w)
        most_here = most[begin : begin + rows]
        here = onward[begin : begin + rows]
        _open_spans(gradients, chart, e, own, own_e, most_here, place, lengths, w, low, high, here)
        if w >= 3:
            for r in range(low, high):
                for i in range(lengths[r] - w):
                    at = place[w, r] + i - begin
                    _spread_over_pairs(here[at], matrix, by_pairs[at].reshape(-1))
            _pairs_back(chart, e, place, lengths, w, low, high, most_here, by_pairs, gradients)
        _backward_words(
            chart, words, e, word_left, word_right, word_both, place, lengths, w, low, high, most_here, here,
            gradients, by_words, by_left, by_right, by_both,
        )  # fmt: skip
