"""The compiled loops that sum over non-projective trees, without a subtraction. Uses only numpy arrays.

The formulas are in :mod:`catena.kernels.dependency.reference`. Words are numbered from 0 here, and rows belong to
dependents: ``a[m, h]`` is the weight of head ``h`` for word ``m``, and ``a[m, n]`` that of the root.

**Probabilities.** ``up[h, m]`` is the probability that a walk from ``h`` up ends at the root before it comes to
``m`` (for a single root: that probability divided by the root's weight, as the latter goes to 0). It takes the
elimination of all words but ``m``. The words are halved again and again: what is left after one half is eliminated
serves for all words of the other, so that all of it takes no more than four eliminations' time. Coming back, the
probabilities of the half that was eliminated follow from those of the half that was left; ``q[k, h]`` are the
probabilities of the heads of ``k`` when it was eliminated.

**Why this is exact.** No weight is above 1, nothing is subtracted, and the sums of heads' weights never grow.
What underflow takes is less than the least float, and grows by no more than the product of all 1 / d. Where
that product is beyond 1 / MIN_PIVOT, or a probability of a possible arc is below _TINY, the sentence is reported
and done again by :mod:`catena.kernels.dependency.cpu_matrix_tree_wide`, unless that
probability is 0 in the dtype of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64

from catena.kernels.common.jit import SUMS, jit
from catena.kernels.dependency.cpu_eisner import level, weigh

MIN_PIVOT = 1e-200
_TINY = 1e-250
_MOST_32 = 1e50
"""What underflow takes from a share, at most n / MIN_PIVOT times the least float, is 0 in float32 even times this."""

UP, DOWN, BACK, LEAF = 0, 1, 2, 3
"""What to do with a stretch of words: eliminate its lower half; come back from that and eliminate its upper
half; come back from that; or nothing, for it is one word.
"""


@njit(nogil=True)
def row_width(size: int) -> int:
    """At least ``size``: an odd number of cache lines, or rows of 2ᵏ words would all fall on the same few lines."""
    return 8 * ((size + 7) // 8 | 1)


@njit(nogil=True)
def halving(n: int, plan: Any) -> int:
    """The order of work: rows (what to do, depth, low, high) of the plan. Returns their number, at most 4 n."""
    if n == 0:
        return 0
    stack = np.empty((66, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = UP, 0, n
    depth = 0
    size = 0
    while depth >= 0:
        task, low, high = stack[depth]
        task = LEAF if high - low == 1 else task
        plan[size, 0], plan[size, 1], plan[size, 2], plan[size, 3] = task, depth, low, high
        size += 1
        if task >= BACK:
            depth -= 1
            continue
        mid = (low + high) // 2
        stack[depth, 0] = task + 1
        depth += 1
        stack[depth, 0] = UP
        stack[depth, 1], stack[depth, 2] = (mid, high) if task == UP else (low, mid)
    return size


@njit(nogil=True, fastmath=set(SUMS))
def _add_four(
    a: Any, to: int, q0: float, q1: float, q2: float, q3: float, b: Any, of0: int, of1: int, of2: int, of3: int,
    size: int,
) -> None:  # fmt: skip
    """Four rows of ``b``, each times a number, onto one of ``a``. Rows are given by where they begin."""
    # Of unsigned numbers Numba knows that they do not count from the end.
    start = uint64(to)
    b0 = uint64(of0)
    b1 = uint64(of1)
    b2 = uint64(of2)
    b3 = uint64(of3)
    for k in range(uint64(size)):
        a[start + k] += (q0 * b[b0 + k] + q1 * b[b1 + k]) + (q2 * b[b2 + k] + q3 * b[b3 + k])


@njit(nogil=True, fastmath=set(SUMS))
def _add(a: Any, to: int, q: float, b: Any, of: int, size: int) -> None:
    """One row times a number onto another."""
    start = uint64(to)
    other = uint64(of)
    for k in range(uint64(size)):
        a[start + k] += q * b[other + k]


@njit(nogil=True, fastmath=set(SUMS))
def _share_out(a: Any, row: int, n: int, low: int, high: int, with_root: bool, q: Any, to: int) -> float:
    """The probabilities of a word's heads, among the words ``low`` to ``high`` and the root, into a row of ``q``.

    Returns d.
    """
    first = uint64(low)
    last = uint64(high)
    here = uint64(row)
    there = uint64(to)
    d = 0.0
    for h in range(first, last):
        d += a[here + h]
    d += a[row + n] if with_root else 0.0
    scale = 1 / d if d > 0 else 0.0
    for h in range(first, last):
        q[there + h] = a[here + h] * scale
    q[to + n] = a[row + n] * scale
    return d


@njit(nogil=True)
def _pass_on(a: Any, row: int, k: int, n: int, low: int, high: int, q: Any, of: int) -> None:
    """Where a word would have ``k`` for its head it has the heads of ``k``, among ``low`` to ``high`` and the root."""
    weight = a[row + k]
    _add(a, row + low, weight, q, of + low, high - low)
    a[row + n] += weight * q[of + n]


@njit(nogil=True)
def _pass_on_four(
    a: Any, base: int, size: int, k0: int, step: int, n: int, low: int, high: int, q: Any, at: int
) -> None:
    """:func:`_pass_on` for four words, one after the other, and all that are left, ``low`` to ``high``."""
    k1 = k0 + step
    k2 = k0 + 2 * step
    k3 = k0 + 3 * step
    of0 = at + k0 * size
    of1 = at + k1 * size
    of2 = at + k2 * size
    of3 = at + k3 * size
    q01, q02, q03, q12, q13, q23 = q[of0 + k1], q[of0 + k2], q[of0 + k3], q[of1 + k2], q[of1 + k3], q[of2 + k3]
    r0, r1, r2, r3 = q[of0 + n], q[of1 + n], q[of2 + n], q[of3 + n]
    for m in range(low, high):
        row = base + m * size
        v0 = a[row + k0]
        v1 = a[row + k1] + v0 * q01
        v2 = a[row + k2] + v0 * q02 + v1 * q12
        v3 = a[row + k3] + v0 * q03 + v1 * q13 + v2 * q23
        _add_four(a, row + low, v0, v1, v2, v3, q, of0 + low, of1 + low, of2 + low, of3 + low, high - low)
        a[row + n] += (v0 * r0 + v1 * r1) + (v2 * r2 + v3 * r3)


@njit(nogil=True)
def _eliminate(
    a: Any, base: int, size: int, n: int, low: int, mid: int, high: int, upwards: bool, with_root: bool, q: Any,
    at: int, ds: Any,
) -> int:  # fmt: skip
    """Eliminate the words from ``low`` to ``mid``, or from ``high`` down to ``mid``, four at a time; d goes to ``ds``.

    The matrices begin at ``base`` of ``a`` and at ``at`` of ``q``, with rows of ``size``. Returns how many words.
    """
    todo, step = (mid - low, 1) if upwards else (high - mid, -1)
    for done in range(0, todo, 4):
        count = min(4, todo - done)
        k0 = low + done if upwards else high - 1 - done
        for t in range(count):
            k = k0 + t * step
            first, last = (k + 1, high) if upwards else (low, k)
            ds[done + t] = _share_out(a, base + k * size, n, first, last, with_root, q, at + k * size)
            for s in range(t + 1, count):
                _pass_on(a, base + (k0 + s * step) * size, k, n, first, last, q, at + k * size)
        first, last = (k0 + count, high) if upwards else (low, k0 - count + 1)
        if count == 4:
            _pass_on_four(a, base, size, k0, step, n, first, last, q, at)
        else:
            for t in range(count):
                k = k0 + t * step
                far_first, far_last = (k + 1, high) if upwards else (low, k)
                for m in range(first, last):
                    _pass_on(a, base + m * size, k, n, far_first, far_last, q, at + k * size)
    return todo


@njit(nogil=True)
def _come_back(
    k: int, n: int, low: int, high: int, left_low: int, left_high: int, q: Any, at: int, size: int, up: Any
) -> None:
    """``up`` of a word eliminated when ``low`` to ``high`` were left, for the words that were left at the end."""
    row = at + k * size
    to = k * size + left_low
    width = left_high - left_low
    for m in range(width):
        up[to + m] = q[row + n]
    h = low
    of = low * size + left_low
    while h + 4 <= high:
        q0, q1, q2, q3 = q[row + h], q[row + h + 1], q[row + h + 2], q[row + h + 3]
        _add_four(up, to, q0, q1, q2, q3, up, of, of + size, of + 2 * size, of + 3 * size, width)
        h += 4
        of += 4 * size
    while h < high:
        _add(up, to, q[row + h], up, of, width)
        h += 1
        of += size


@njit(nogil=True)
def _copy(a: Any, base: int, to: int, size: int, n: int, low: int, high: int) -> None:
    for m in range(low, high):
        of = uint64(base + m * size)
        at = uint64(to + m * size)
        for h in range(uint64(low), uint64(high)):
            a[at + h] = a[of + h]
        a[to + m * size + n] = a[base + m * size + n]


@njit(nogil=True)
def _pair(a: Any, base: int, size: int, n: int, low: int, with_root: bool, up: Any) -> Any:
    """``up`` for a stretch of two words. Returns (the lesser product of what is below 1 of both d, their product)."""
    x = base + low * size
    y = base + (low + 1) * size
    by_x, by_y, root_x, root_y = a[y + low], a[x + low + 1], a[x + n], a[y + n]
    d_x = by_y + (root_x if with_root else 0.0)
    d_y = by_x + (root_y if with_root else 0.0)
    if not (d_x > 0 and d_y > 0):
        return 0.0, 0.0
    x_up = root_x / d_x
    y_up = root_y / d_y
    up[low * size + low], up[low * size + low + 1] = 0.0, x_up
    up[(low + 1) * size + low], up[(low + 1) * size + low + 1] = y_up, 0.0
    last_x = root_x + by_y * y_up
    last_y = root_y + by_x * x_up
    loss = min(min(d_x, 1.0) * min(last_y, 1.0), min(d_y, 1.0) * min(last_x, 1.0))
    return loss, d_x * last_y


@njit(nogil=True)
def fill_upper(a: Any, q: Any, size: int, n: int, with_root: bool, up: Any, plan: Any, losses: Any, ds: Any) -> Any:
    """Fill ``up`` from the weights, which are the first matrix of ``a``.

    The matrices in ``a`` follow each other, with rows of ``size`` numbers.

    Returns (log Z without the shifts, whether floats sufficed).
    """
    area = size * size
    losses[0] = 1.0
    log_z = 0.0
    i = 0
    count = halving(n, plan)
    while i < count:
        task, depth, low, high = plan[i]
        here = depth * area
        mid = (low + high) // 2
        i += 1
        if high - low <= 2:
            if task == LEAF:
                up[low * size + low] = 0.0
                loss = product = a[here + low * size + n]
            else:
                loss, product = _pair(a, here, size, n, low, with_root, up)
                i += 4  # its leaves and the ways back are done
            if not losses[depth] * min(loss, 1.0) > MIN_PIVOT:
                return log_z, False
            log_z += np.log(product) if high == n else 0.0
            continue
        if task == DOWN:
            for k in range(mid - 1, low - 1, -1):
                _come_back(k, n, k + 1, high, mid, high, q, here, size, up)
        elif task == BACK:
            for k in range(mid, high):
                _come_back(k, n, low, k, low, mid, q, here, size, up)
            continue
        _copy(a, here, here + area, size, n, low, high)
        loss, log_d = _lost(ds, _eliminate(a, here + area, size, n, low, mid, high, task == UP, with_root, q, here, ds))
        losses[depth + 1] = losses[depth] * loss
        if not losses[depth + 1] > MIN_PIVOT:
            return log_z, False
        log_z += log_d if task == UP and high == n else 0.0
    return log_z, True


@njit(nogil=True)
def _lost(ds: Any, count: int) -> Any:
    """(the product of all d below 1, the log of the product of all)."""
    loss = 1.0
    log_d = 0.0
    for i in range(count):
        loss *= min(ds[i], 1.0)
        log_d += np.log(ds[i])
    return loss, log_d


@njit(nogil=True, fastmath=set(SUMS), error_model="numpy")
def _write_marginals(x: Any, w: Any, n: int, up: Any, size: int, norms: Any, marginals: Any) -> bool:
    """The probabilities of arcs; ``norms`` is scratch. Returns whether floats sufficed."""
    words = uint64(n)
    for m in range(words):
        norms[m] = w[0, m + uint64(1)]
    for h in range(n):
        row = uint64(h * size)
        weight = w[h + 1]
        for m in range(words):
            norms[m] += weight[m + uint64(1)] * up[row + m]
    for m in range(words):
        norms[m] = 1 / norms[m]
    small = 0
    is_wide = marginals.itemsize > 4
    for h in range(n + 1):
        row = uint64(max(h - 1, 0) * size)
        weight = w[h]
        score = x[h]
        result = marginals[h]
        result[0] = 0.0
        for m in range(words):
            to = m + uint64(1)
            share = weight[to] * (up[row + m] if h > 0 else 1.0)
            result[to] = share * norms[m]
            exact = share > _TINY and share * norms[m] > _TINY
            small += (score[to] > -np.inf) & (not exact) & (is_wide | (not norms[m] < _MOST_32))
    return small == 0


@jit("3", "i1", "b", "i", "i", "b", "d1", "3", "b1")
def sum_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, both_ways: bool, log_z: Any, marginals: Any,
    exact: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high`` and whether floats sufficed for it.

    With ``both_ways`` also the probabilities of arcs, which are to be 0 before beyond the lengths.
    """
    size = arcs.shape[1]
    depths = 1
    while 1 << (depths - 1) < size:
        depths += 1
    width = row_width(size)
    x = np.empty((size, size))
    w = np.empty((size, size))
    up = np.empty(width * width)
    a = np.empty(depths * width * width)
    q = np.empty(depths * width * width)
    ds = np.empty(size)
    losses = np.empty(depths)
    plan = np.empty((4 * size, 4), np.int64)
    for r in range(low, high):
        n = lengths[r]
        shift = level(arcs[r], n, single_root, x, ds)
        weigh(x, n, 0.0, False, w, plan)
        permute_weights(w, n, width, a)
        if both_ways:
            log_z[r], exact[r] = fill_upper(a, q, width, n, not single_root, up, plan, losses, ds)
            if exact[r] and n > 0:
                exact[r] = _write_marginals(x, w, n, up, width, ds, marginals[r])
        elif n > 0:
            _eliminate(a, 0, width, n, 0, n - 1, n, True, not single_root, q, 0, ds)
            ds[n - 1] = a[(n - 1) * width + n]
            loss, log_z[r] = _lost(ds, n)
            exact[r] = loss > MIN_PIVOT
        else:
            log_z[r] = 0.0
            exact[r] = True
        log_z[r] += shift


@njit(nogil=True)
def permute_weights(w: Any, n: int, size: int, a: Any) -> None:
    """The weights in the numbering of this file."""
    for h in range(n + 1):
        to = h - 1 if h > 0 else n
        for m in range(n):
            a[m * size + to] = w[h, m + 1]
