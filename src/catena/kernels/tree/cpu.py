"""The compiled loops that sum over span trees. Knows numpy arrays alone; ``tree`` knows torch.

Charts are kept by width: ``[w, i]`` is the span of ``w + 1`` words that begins at ``i``. So the parts of all
spans of one width, split after ``u + 1`` words, lie one after the other (``[u, i]`` and ``[w - 1 - u, i + u +
1]``), and the innermost loop runs over the spans. For longer loops, several sentences lie side by side in a
chart, one in each *lane*: ``[w, i × lanes + lane]``. The numbers of the chart are wide (see
:mod:`catena.kernels.tree.floats`), or plain floats if the weights of the spans are so near to each other that no sum
leaves the range of a float.

The way down needs no outside weights. What a span's probability gives to its two parts is the share that
their product had in the sum on the way up, so all that is added there are probabilities. Labels are summed out
before and shared out after: the charts know spans alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.jit import SUMS, jit, jit_function
from catena.kernels.common.vector_math import exp_less, max_entry
from catena.kernels.tree.floats import NOWHERE, get_exponent, mantissa, power_of_two, powers_of_two, to_log

LANES, ROOM = 8, 32768
"""The most sentences side by side, and the most numbers in a chart of several: beyond it the cache is too small."""

PLAIN_BITS = 1000
"""Powers of two up to which a sum over trees, and its inverse, may grow as a plain float."""


@njit(nogil=True)
def label_room(t: int, k: int) -> Any:
    """Buffers of :func:`sum_labels`: four numbers of each span, and two of each label of the spans from one word."""
    return np.empty((4, t * (t + 1) // 2)), np.empty((2, t, k))


@njit(nogil=True)
def _weigh_labels(scores: Any, i: int, n: int, room: Any, top: Any, mass: Any) -> int:
    """Write the largest score of the spans ``i`` to ``j``, the relative weights of their labels, and their sum.

    The score goes to ``top[j - i]``, the weights to row 1 of the scratch, the sum to ``mass[j - i]``. Returns the
    number of scores that are nan or +inf.

    One exponential over all spans from a word is faster than one for each.
    """
    k = scores.shape[2]
    wrong = 0
    less, weights = room[0], room[1]
    for x in range(n - i):
        j = i + x
        for q in range(k):
            wrong += not scores[i, j, q] < np.inf
        top[x] = max_entry(scores, i, j)
        base = top[x] if top[x] > -np.inf else 0.0
        for q in range(k):
            less[x, q] = scores[i, j, q] - base
    many = (n - i) * k
    exp_less(less.reshape(-1)[:many], 0.0, weights.reshape(-1)[:many])
    for x in range(n - i):
        total = 0.0
        for q in range(k):
            total += weights[x, q]
        mass[x] = total
    return wrong


@njit(nogil=True)
def sum_labels(
    scores: Any, n: int, lane: int, lanes: int, own: Any, own_e: Any, shares: Any, keep: bool, spans: Any, labels: Any
) -> int:
    """The summed weight of each span's labels into ``own``; with ``keep`` the share of each into ``shares``.

    Returns how many scores are nan or +inf; where any is, all weights are 0.
    """
    k = scores.shape[2]
    size = n * (n + 1) // 2
    top, mass, rest, powers = spans[0, :size], spans[1, :size], spans[2, :size], spans[3, :size]
    x = wrong = 0
    for i in range(n):
        if k > 1:
            wrong += _weigh_labels(scores, i, n, labels, top[x:], mass[x:])
            for j in range(i, n if keep else 0):
                for q in range(k):
                    shares[i, j, q] = labels[1, j - i, q] / mass[x + j - i] if mass[x + j - i] > 0 else 0.0
        else:
            for j in range(i, n):
                top[x + j - i] = scores[i, j, 0]
                mass[x + j - i] = 1.0
                wrong += not scores[i, j, 0] < np.inf
            if keep:
                for j in range(i, n):
                    shares[i, j, 0] = 1.0 if scores[i, j, 0] > -np.inf else 0.0
        x += n - i
    powers_of_two(top, rest)
    exp_less(rest, 0.0, powers)
    x = 0
    for i in range(n):
        for j in range(i, n):
            value = powers[x] * mass[x] if top[x] > -np.inf and wrong == 0 else 0.0
            own[j - i, i * lanes + lane] = mantissa(value)
            own_e[j - i, i * lanes + lane] = get_exponent(value, np.int64(top[x])) if wrong == 0 else NOWHERE
            x += 1
    return wrong


@njit(nogil=True)
def _sum_splits(w: int, size: int, lanes: int, beta: Any, beta_e: Any, inner: Any, inner_e: Any) -> None:
    """``inner[w]``: the products of the two parts, summed over splits; ``inner_e[w]``: the greatest exponent."""
    most = inner_e[w]
    total = inner[w]
    for x in range(size):
        most[x] = 2 * NOWHERE
        total[x] = 0.0
    for u in range(w):
        left, right = beta_e[u], beta_e[w - 1 - u, (u + 1) * lanes :]
        for x in range(size):
            e = left[x] + right[x]
            most[x] = e if e > most[x] else most[x]
    for u in range(w):
        left, right = beta[u], beta[w - 1 - u, (u + 1) * lanes :]
        left_e, right_e = beta_e[u], beta_e[w - 1 - u, (u + 1) * lanes :]
        for x in range(size):
            total[x] += left[x] * right[x] * power_of_two(left_e[x] + right_e[x] - most[x])


@njit(nogil=True)
def inside(n: int, lanes: int, own: Any, own_e: Any, beta: Any, beta_e: Any, inner: Any, inner_e: Any) -> None:
    """``beta``: all trees over each span, for sentences of at most ``n`` words."""
    for x in range(n * lanes):
        beta[0, x] = own[0, x]
        beta_e[0, x] = own_e[0, x]
    for w in range(1, n):
        size = (n - w) * lanes
        _sum_splits(w, size, lanes, beta, beta_e, inner, inner_e)
        for x in range(size):
            value = inner[w, x] * own[w, x]
            beta_e[w, x] = get_exponent(value, inner_e[w, x] + own_e[w, x])
            beta[w, x] = mantissa(value)


@njit(nogil=True)
def outside(n: int, lanes: int, beta: Any, beta_e: Any, inner: Any, inner_e: Any, marginals: Any, given: Any) -> None:
    """Write the probability of each span to the array, which holds 1 for whole sentences and 0 elsewhere."""
    for w in range(n - 1, 0, -1):
        size = (n - w) * lanes
        each = inner[w]
        for x in range(size):
            each[x] = marginals[w, x] / each[x] if marginals[w, x] > 0 else 0.0
        for u in range(w):
            shift = (u + 1) * lanes
            most = inner_e[w]
            left, right = beta[u], beta[w - 1 - u, shift:]
            left_e, right_e = beta_e[u], beta_e[w - 1 - u, shift:]
            to_left, to_right = marginals[u], marginals[w - 1 - u, shift:]
            for x in range(size):
                share = left[x] * right[x] * power_of_two(left_e[x] + right_e[x] - most[x])
                given[x] = share * each[x]
                to_left[x] += given[x]
            for x in range(size):
                to_right[x] += given[x]


@njit(nogil=True)
def _scale_together(n: int, lanes: int, own: Any, own_e: Any) -> Any:
    """Make wide weights plain floats times a common 2^e each, where no sum over trees leaves their range.

    Returns whether they are, and e. A tree has 2 n - 1 spans, and there are fewer than 4^n trees.
    """
    low = np.int64(1 << 40)
    high = -low
    for w in range(n):
        for x in range((n - w) * lanes):
            e = own_e[w, x]
            low = min(low, e if e > NOWHERE else low)
            high = max(high, e)
    middle = (low + high) >> 1 if low <= high else 0
    farthest = max(high - middle, middle - low + 1)
    if low <= high and (2 * n - 1) * farthest + 2 * n > PLAIN_BITS:
        return False, middle
    for w in range(n):
        for x in range((n - w) * lanes):
            own[w, x] *= power_of_two(own_e[w, x] - middle)
    return True, middle


@jit_function(SUMS)
def _inside_plain(n: int, lanes: int, own: Any, beta: Any, inner: Any) -> None:
    """As :func:`inside`, for plain floats."""
    for x in range(n * lanes):
        beta[0, x] = own[0, x]
    for w in range(1, n):
        size = (n - w) * lanes
        total = inner[w]
        for x in range(size):
            total[x] = 0.0
        for u in range(w):
            left = beta[u]
            right = beta[w - 1 - u, (u + 1) * lanes :]
            for x in range(size):
                total[x] += left[x] * right[x]
        for x in range(size):
            beta[w, x] = total[x] * own[w, x]


@njit(nogil=True)
def _outside_plain(n: int, lanes: int, beta: Any, inner: Any, marginals: Any, given: Any) -> None:
    """As :func:`outside`, for plain floats."""
    for w in range(n - 1, 0, -1):
        size = (n - w) * lanes
        each = inner[w]
        for x in range(size):
            each[x] = marginals[w, x] / each[x] if marginals[w, x] > 0 else 0.0
        for u in range(w):
            shift = (u + 1) * lanes
            left = beta[u]
            right = beta[w - 1 - u, shift:]
            to_left = marginals[u]
            to_right = marginals[w - 1 - u, shift:]
            for x in range(size):
                given[x] = left[x] * right[x] * each[x]
                to_left[x] += given[x]
            for x in range(size):
                to_right[x] += given[x]


@njit(nogil=True)
def _clear(chart: Any, chart_e: Any, n: int, lanes: int, e: int) -> None:
    for w in range(n):
        for x in range((n - w) * lanes):
            chart[w, x] = 0.0
            chart_e[w, x] = e


@njit(nogil=True)
def _write(chart: Any, n: int, t: int, lane: int, lanes: int, marginals: Any) -> None:
    """The probabilities of one sentence's spans, by first and then by last word; 0 beyond its ``n`` words."""
    x = 0
    for i in range(t):
        for j in range(i, t):
            marginals[x] = chart[j - i, i * lanes + lane] if j < n else 0.0
            x += 1


@jit("4", "i1", "i", "i", "b", "i", "d1", "2")
def sum_rows(
    scores: Any, lengths: Any, low: int, high: int, both_ways: bool, most_lanes: int, log_z: Any, marginals: Any
) -> None:
    """log Z of the rows ``low`` to ``high``; with ``both_ways`` also the probabilities of their spans.

    Both are nan where a score that is read is nan or +inf.
    """
    t = scores.shape[1]
    width = t * most_lanes + 8  # a power of two would crowd the cache
    own = np.empty((t, width))
    own_e = np.empty((t, width), np.int64)
    beta = np.empty((t, width))
    beta_e = np.empty((t, width), np.int64)
    inner = np.empty((t, width))
    inner_e = np.empty((t, width), np.int64)
    given = np.empty(width)
    no_shares = np.empty((1, 1, 1))
    wrong = np.zeros(most_lanes, np.int64)
    spans, labels = label_room(t, scores.shape[3])
    for begin in range(low, high, most_lanes):
        lanes = min(most_lanes, high - begin)
        n = 0
        for r in range(begin, begin + lanes):
            n = max(n, lengths[r])
        _clear(own, own_e, n, lanes, NOWHERE)
        for lane in range(lanes):
            r = begin + lane
            wrong[lane] = sum_labels(scores[r], lengths[r], lane, lanes, own, own_e, no_shares, False, spans, labels)
        plain, common = _scale_together(n, lanes, own, own_e)
        if plain:
            _inside_plain(n, lanes, own, beta, inner)
        else:
            inside(n, lanes, own, own_e, beta, beta_e, inner, inner_e)
        chart = own
        if both_ways:
            _clear(chart, own_e, n, lanes, 0)
        for lane in range(lanes):
            last = lengths[begin + lane] - 1
            if last >= 0:
                total = beta[last, lane]
                e = get_exponent(total, common * (2 * last + 1)) if plain else beta_e[last, lane]
                log_z[begin + lane] = to_log(mantissa(total), e)  # the same bits for every common exponent
            else:
                log_z[begin + lane] = 0.0
            if both_ways and last >= 0 and beta[last, lane] > 0:
                chart[last, lane] = 1.0
        if both_ways:
            if plain:
                _outside_plain(n, lanes, beta, inner, chart, given)
            else:
                outside(n, lanes, beta, beta_e, inner, inner_e, chart, given)
            for lane in range(lanes):
                _write(chart, lengths[begin + lane], t, lane, lanes, marginals[begin + lane])
        for lane in range(lanes):
            if wrong[lane] > 0:
                log_z[begin + lane] = np.nan
                marginals[begin + lane if both_ways else 0] = np.nan


@jit("4", "1", "2", "i", "i", "4")
def share_rows(scores: Any, scale: Any, marginals: Any, low: int, high: int, gradients: Any) -> None:
    """Write each span's probability times ``scale``, divided among its labels, to an array of zeros."""
    t, k = scores.shape[1], scores.shape[3]
    top = np.empty(t)
    mass = np.empty(t)
    labels = np.empty((2, t, k))
    for r in range(low, high):
        x = 0
        for i in range(t):
            if k > 1:
                _weigh_labels(scores[r], i, t, labels, top, mass)
            for j in range(i, t):
                given = scale[r] * marginals[r, x]
                x += 1
                if k == 1:
                    gradients[r, i, j, 0] = given
                elif given != 0:
                    each = given / mass[j - i]
                    for q in range(k):
                        gradients[r, i, j, q] = each * labels[1, j - i, q]
