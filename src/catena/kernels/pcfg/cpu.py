"""The compiled loops of grammars: what lies between two matrix products. Uses only numpy arrays.

The spans of a batch are the rows of one table, ordered by width, then by sentence, then by first word: row
``place[w, r] + i`` is the span of ``w + 1`` words that begins at word ``i`` of sentence ``r``. So all spans
of one width are a block of rows, and the products with the rules are products of whole matrices, left to the
library that torch uses.

Weights of the symbols over a span are kept as ``chart[row] × 2^e[row]``. One exponent serves all symbols of a
span; a weight that is too small beside them, though not zero, makes the sentence inexact, and it is done
again in log space.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import SUMS, jit
from catena.kernels.tree.floats import NOWHERE, get_exponent, power_of_two

_NEAR = 2048
"""Spans of one width are done together, side by side, as long as their sums have no more numbers than this: their parts
lie side by side too, and are fetched at once. One span after the other, each part would be loaded again, which takes
most of the time where a chart outgrows the cache next to a core."""

LEAST = 1e-140
"""Sums below this are not trusted: underflow may have taken from them what is more than the rounding error."""


@njit(nogil=True)
def _together(size: int) -> int:
    """The number of spans that are processed together, given the size of the sum of each."""
    return max(1, min(16, _NEAR // size))


@njit(nogil=True)
def _greatest(e: Any, place: Any, w: int, r: int, low: int, high: int, most: Any) -> None:
    """The largest exponents of a product of two children, for spans of ``w + 1`` words from ``low`` to ``high``."""
    at = place[w, r] - place[w, 0]
    for i in range(low, high):
        most[at + i] = 2 * NOWHERE
    for u in range(w):
        lefts = place[u, r]
        rights = place[w - 1 - u, r] + u + 1
        for i in range(low, high):
            both = e[lefts + i] + e[rights + i]
            most[at + i] = both if both > most[at + i] else most[at + i]


@jit("d2", "i1", "d2", "i1", "i2", "i1", "i", "i", "i", "b", "d2", "i1", "b1")
def rescale_spans(
    sums: Any, most: Any, own: Any, own_e: Any, place: Any, lengths: Any, w: int, low: int, high: int, signs_only: bool,
    chart: Any, e: Any, suspect: Any,
) -> None:  # fmt: skip
    """Weights of the spans of ``w + 1`` words from the sums over rules, brought to a common exponent.

    With ``signs_only`` what is possible weighs 1. A sentence is suspect where a weight was too small to be
    kept.
    """
    begin = place[w, 0]
    n = sums.shape[1]
    for r in range(low, high):
        for i in range(lengths[r] - w):
            row = place[w, r] + i
            given = sums[row - begin]
            here = chart[row]
            weight = own[row]
            top = 0.0
            for a in range(n):
                here[a] = given[a] * weight[a]
                top = here[a] if here[a] > top else top
            if signs_only:
                for a in range(n):
                    here[a] = 1.0 if here[a] > 0 else 0.0
                e[row] = 0 if top > 0 else NOWHERE
                continue
            shift = get_exponent(top, 0)
            small = 0
            for a in range(n):
                small += here[a] < LEAST
            if small > 0:
                suspect[r] = True
                for a in range(n):
                    here[a] = here[a] if here[a] >= LEAST else 0.0
            if top < LEAST:
                e[row] = NOWHERE
                continue
            for a in range(n):
                here[a] *= power_of_two(-shift)
            e[row] = shift + most[row - begin] + own_e[row]


@jit("d2", "d2", "i1", "d2", "i1", "i1", "i2", "i1", "i", "i", "i", "d2")
def open_spans(
    gradients: Any, chart: Any, e: Any, own: Any, own_e: Any, most: Any, place: Any, lengths: Any, w: int, low: int,
    high: int, onward: Any,
) -> None:  # fmt: skip
    """Write to ``onward`` the gradient of the sums over rules, from the gradient of the saved weights of spans."""
    begin = place[w, 0]
    n = chart.shape[1]
    for r in range(low, high):
        for i in range(lengths[r] - w):
            row = place[w, r] + i
            to = onward[row - begin]
            if e[row] == NOWHERE:
                for a in range(n):
                    to[a] = 0.0
                continue
            scale = power_of_two(most[row - begin] + own_e[row] - e[row])
            for a in range(n):
                # What is impossible gets nothing, whatever its surroundings are.
                to[a] = gradients[row, a] * own[row, a] * scale if chart[row, a] > 0 else 0.0


# --- dense rules --------------------------------------------------------------------------------------------
@njit(nogil=True, fastmath=set(SUMS))
def _add_outer(left: Any, right: Any, scale: float, total: Any) -> None:
    """total += scale × left ⊗ right."""
    for b in range(left.shape[0]):
        x = left[b] * scale
        row = total[b]
        for c in range(right.shape[0]):
            row[c] += x * right[c]


@njit(nogil=True, fastmath=set(SUMS))
def _add_outers(chart: Any, lefts: Any, rights: Any, scales: Any, total: Any) -> None:
    """total += Σ scale × left ⊗ right over four pairs of rows of the chart."""
    l0, l1, l2, l3 = chart[lefts[0]], chart[lefts[1]], chart[lefts[2]], chart[lefts[3]]
    r0, r1, r2, r3 = chart[rights[0]], chart[rights[1]], chart[rights[2]], chart[rights[3]]
    n = l0.shape[0]
    for b in range(n):
        x0 = l0[b] * scales[0]
        x1 = l1[b] * scales[1]
        x2 = l2[b] * scales[2]
        x3 = l3[b] * scales[3]
        row = total[b]
        for c in range(n):
            row[c] += (x0 * r0[c] + x1 * r1[c]) + (x2 * r2[c] + x3 * r3[c])


@njit(nogil=True, fastmath=set(SUMS))
def _add_times(v: Any, matrix: Any, scale: float, total: Any) -> None:
    """total[a] += scale × Σ_c v[c] matrix[c, a], four rows at a time."""
    n = v.shape[0]
    c = 0
    while c + 4 <= n:
        v0 = v[c] * scale
        v1 = v[c + 1] * scale
        v2 = v[c + 2] * scale
        v3 = v[c + 3] * scale
        m0, m1, m2, m3 = matrix[c], matrix[c + 1], matrix[c + 2], matrix[c + 3]
        for a in range(total.shape[0]):
            total[a] += (v0 * m0[a] + v1 * m1[a]) + (v2 * m2[a] + v3 * m3[a])
        c += 4
    while c < n:
        v0 = v[c] * scale
        m0 = matrix[c]
        for a in range(total.shape[0]):
            total[a] += v0 * m0[a]
        c += 1


@njit(nogil=True, fastmath=set(SUMS))
def _add_dots(matrix: Any, v: Any, scale: float, total: Any) -> None:
    """total[c] += scale × Σ_a matrix[c, a] v[a]."""
    for c in range(total.shape[0]):
        row = matrix[c]
        dot = 0.0
        for a in range(v.shape[0]):
            dot += row[a] * v[a]
        total[c] += scale * dot


@njit(nogil=True)
def _pair_up(chart: Any, e: Any, place: Any, w: int, r: int, i: int, first: int, most: int, pairs: Any) -> None:
    """``pairs[b, c]`` += weight × weight over four splits of a span into two parts of two words or more.

    The first of the splits has ``first`` + 1 words on the left.
    """
    lefts = np.empty(4, np.int64)
    rights = np.empty(4, np.int64)
    scales = np.empty(4)
    n = 0
    for u in range(first, min(first + 4, w - 1)):
        left = place[u, r] + i
        right = place[w - 1 - u, r] + i + u + 1
        scale = power_of_two(e[left] + e[right] - most)
        if scale > 0.0:
            lefts[n] = left
            rights[n] = right
            scales[n] = scale
            n += 1
    if n == 4:
        _add_outers(chart, lefts, rights, scales, pairs)
        return
    for x in range(n):
        _add_outer(chart[lefts[x]], chart[rights[x]], scales[x], pairs)


@jit("d2", "i1", "i2", "i1", "i", "i", "i", "i1", "d2")
def pair_spans(
    chart: Any, e: Any, place: Any, lengths: Any, w: int, low: int, high: int, most: Any, pairs: Any
) -> None:
    """Write ``most`` and, from four words on, ``pairs[·, b n + c]`` for all spans of ``w + 1`` words.

    Pairs are Σ weight × weight over the splits of a span into two parts of two words or more.
    """
    n = chart.shape[1]
    step = _together(n * n)
    for r in range(low, high):
        begin = place[w, r] - place[w, 0]
        for near in range(0, lengths[r] - w, step):
            beyond = min(near + step, lengths[r] - w)
            _greatest(e, place, w, r, near, beyond, most)
            if w < 3:
                continue
            for i in range(near, beyond):
                pairs[begin + i] = 0.0
            for u in range(1, w - 1, 4):
                for i in range(near, beyond):
                    at = begin + i
                    _pair_up(chart, e, place, w, r, i, u, most[at], pairs[at].reshape(n, n))


@jit("d2", "d2", "i1", "d3", "d3", "d3", "i2", "i1", "i", "i", "i", "i1", "d2")
def add_words(
    chart: Any, words: Any, e: Any, word_left: Any, word_right: Any, word_both: Any, place: Any, lengths: Any, w: int,
    low: int, high: int, most: Any, sums: Any,
) -> None:  # fmt: skip
    """Add the splits of which a part is one word, whose weights are in the matrices ``word_…`` already."""
    begin = place[w, 0]
    for r in range(low, high):
        for i in range(lengths[r] - w):
            at = place[w, r] + i - begin
            first = place[0, r] + i
            last = place[0, r] + i + w
            if w == 1:
                _add_times(words[last], word_both[first], power_of_two(e[first] + e[last] - most[at]), sums[at])
                continue
            left = place[w - 1, r] + i
            right = place[w - 1, r] + i + 1
            _add_times(chart[right], word_left[first], power_of_two(e[first] + e[right] - most[at]), sums[at])
            _add_times(chart[left], word_right[last], power_of_two(e[left] + e[last] - most[at]), sums[at])


@jit("d2", "d2", "i1", "d3", "d3", "d3", "i2", "i1", "i", "i", "i", "i1", "d2", "d2", "d2", "d3", "d3", "d3")
def backward_words(
    chart: Any,
    words: Any,
    e: Any,
    word_left: Any,
    word_right: Any,
    word_both: Any,
    place: Any,
    lengths: Any,
    w: int,
    low: int,
    high: int,
    most: Any,
    onward: Any,
    gradients: Any,
    by_words: Any,
    by_left: Any,
    by_right: Any,
    by_both: Any,
) -> None:
    """What :func:`add_words` hands back: gradients by spans, words and matrices."""
    begin = place[w, 0]
    for r in range(low, high):
        for i in range(lengths[r] - w):
            at = place[w, r] + i - begin
            first = place[0, r] + i
            last = place[0, r] + i + w
            by_sum = onward[at]
            if w == 1:
                scale = power_of_two(e[first] + e[last] - most[at])
                _add_dots(word_both[first], by_sum, scale, by_words[last])
                _add_outer(words[last], by_sum, scale, by_both[first])
                continue
            left = place[w - 1, r] + i
            right = place[w - 1, r] + i + 1
            scale = power_of_two(e[first] + e[right] - most[at])
            _add_dots(word_left[first], by_sum, scale, gradients[right])
            _add_outer(chart[right], by_sum, scale, by_left[first])
            scale = power_of_two(e[left] + e[last] - most[at])
            _add_dots(word_right[last], by_sum, scale, gradients[left])
            _add_outer(chart[left], by_sum, scale, by_right[last])


@jit("d2", "i1", "i2", "i1", "i", "i", "i", "i1", "d3", "d2")
def pairs_back(
    chart: Any, e: Any, place: Any, lengths: Any, w: int, low: int, high: int, most: Any, by_pairs: Any, gradients: Any
) -> None:
    """What :func:`pair_spans` hands back: gradients by the parts' weights."""
    step = _together(chart.shape[1] ** 2)
    for r in range(low, high):
        begin = place[w, r] - place[w, 0]
        for near in range(0, lengths[r] - w, step):
            beyond = min(near + step, lengths[r] - w)
            for u in range(1, w - 1):
                for i in range(near, beyond):
                    at = begin + i
                    left = place[u, r] + i
                    right = place[w - 1 - u, r] + i + u + 1
                    scale = power_of_two(e[left] + e[right] - most[at])
                    if scale > 0.0:
                        _add_dots(by_pairs[at], chart[right], scale, gradients[left])
                        _add_times(chart[left], by_pairs[at], scale, gradients[right])


# --- low-rank rules -----------------------------------------------------------------------------------------
@jit("d2", "d2", "i1", "i2", "i1", "i", "i", "i", "i1", "d2")
def merge_spans(
    lefts: Any, rights: Any, e: Any, place: Any, lengths: Any, w: int, low: int, high: int, most: Any, merged: Any
) -> None:
    """``merged[·, q]``: Σ over splits of what rank ``q`` finds in the left part × what it finds in the right."""
    step = _together(lefts.shape[1])
    for r in range(low, high):
        begin = place[w, r] - place[w, 0]
        for near in range(0, lengths[r] - w, step):
            beyond = min(near + step, lengths[r] - w)
            _greatest(e, place, w, r, near, beyond, most)
            for i in range(near, beyond):
                merged[begin + i] = 0.0
            for u in range(w):
                for i in range(near, beyond):
                    row = place[u, r] + i
                    other = place[w - 1 - u, r] + i + u + 1
                    scale = power_of_two(e[row] + e[other] - most[begin + i])
                    if scale > 0.0:
                        left = lefts[row]
                        right = rights[other]
                        total = merged[begin + i]
                        for q in range(total.shape[0]):
                            total[q] += scale * left[q] * right[q]


@jit("d2", "d2", "i1", "i2", "i1", "i", "i", "i", "i1", "d2", "d2", "d2")
def merge_back(
    lefts: Any, rights: Any, e: Any, place: Any, lengths: Any, w: int, low: int, high: int, most: Any, by_merged: Any,
    by_lefts: Any, by_rights: Any,
) -> None:  # fmt: skip
    """What :func:`merge_spans` hands back."""
    step = _together(lefts.shape[1])
    for r in range(low, high):
        begin = place[w, r] - place[w, 0]
        for near in range(0, lengths[r] - w, step):
            beyond = min(near + step, lengths[r] - w)
            for u in range(w):
                for i in range(near, beyond):
                    row = place[u, r] + i
                    other = place[w - 1 - u, r] + i + u + 1
                    scale = power_of_two(e[row] + e[other] - most[begin + i])
                    if scale > 0.0:
                        given = by_merged[begin + i]
                        left = lefts[row]
                        right = rights[other]
                        to_left = by_lefts[row]
                        to_right = by_rights[other]
                        for q in range(given.shape[0]):
                            to_left[q] += scale * given[q] * right[q]
                        for q in range(given.shape[0]):
                            to_right[q] += scale * given[q] * left[q]
