"""The compiled loops that sum over projective trees. Knows numpy arrays alone; ``eisner`` knows torch.

Node 0 is the root, ``n`` words follow. ``x[h, m]`` is the score of an arc, less a shift for each word, so
that no weight is above 1; ``w`` are the weights. ``c[h, e]`` sums the half-trees with head ``h`` that reach
to ``e``, on either side; ``i[h, m]`` those whose last arc is from ``h`` to ``m``; ``ct`` and ``it`` are their
transposes, so that every sum runs along rows. Their derivatives, the outside sums, are ``dc`` (and ``dct``),
``di``, and ``ds``, which belongs to the sum over the two half-trees below an arc.

**Why this is exact.** Weights are at most THIN, and fewer than 6.75ⁿ trees share a cell, so that no cell is
above GROWTHⁿ. What underflow takes from a cell is less than the least float, and is multiplied by no more
than that on its way. So a total is right to the last digits if it is above ``least``, and the probability of
an arc if its share of the total is. A sentence where any is below is summed again in numbers without end to
their range (``wide``), unless the probability is 0 in the dtype of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64

from catena.kernels.common.floats import ZERO_EXPONENT, narrow, normal, wide_dot, wide_exp, wide_log, wide_sum
from catena.kernels.common.jit import SUMS, jit
from catena.kernels.common.vector_math import exp_less

GROWTH = 2.6
_LOG_GROWTH = np.log(GROWTH)
_NONE_32 = 1e-50
"""A probability that is 0 in float32, whose least number is 1e-45."""


@njit(nogil=True, fastmath={"nnan", "nsz"})
def _raise_to(top: Any, row: Any) -> None:
    for k in range(top.shape[0]):
        top[k] = row[k] if row[k] > top[k] else top[k]


@njit(nogil=True)
def level(arcs: Any, n: int, single_root: bool, x: Any, top: Any) -> float:
    """``x``: arcs less a shift for each word, and less one more for the root where it has one arc. Returns
    their sum.

    Impossible arcs are -inf. ``top`` is scratch.
    """
    for m in range(n + 1):
        top[m] = -np.inf
    if not single_root:
        _raise_to(top[1 : n + 1], arcs[0, 1 : n + 1])
    for h in range(1, n + 1):
        _raise_to(top[1:h], arcs[h, 1:h])
        _raise_to(top[h + 1 : n + 1], arcs[h, h + 1 : n + 1])
    total = 0.0
    for m in range(n + 1):
        top[m] = top[m] if top[m] > -np.inf else 0.0
        total += top[m]
    for h in range(n + 1):
        for m in range(n + 1):
            x[h, m] = arcs[h, m] - top[m]
        x[h, h] = x[h, 0] = -np.inf
    if single_root:
        most = -np.inf
        for m in range(1, n + 1):
            most = x[0, m] if x[0, m] > most else most
        most = most if most > -np.inf else 0.0
        total += most
        for m in range(1, n + 1):
            x[0, m] -= most
    return total


@njit(nogil=True)
def weigh(x: Any, n: int, thin: float, wide: bool, wm: Any, we: Any) -> None:
    """The weights of arcs, exp(x - thin), as floats or as wide numbers."""
    for h in range(n + 1):
        if not wide:
            exp_less(x[h, : n + 1], thin, wm[h, : n + 1])
            continue
        for m in range(n + 1):
            wm[h, m], we[h, m] = wide_exp(x[h, m] - thin)


@njit(nogil=True, fastmath=set(SUMS))
def _plain_dot(a: Any, i: int, a_low: int, b: Any, j: int, b_low: int, size: int) -> float:
    # Of unsigned numbers Numba knows that they do not count from the end.
    row_a = uint64(i)
    row_b = uint64(j)
    from_a = uint64(a_low)
    from_b = uint64(b_low)
    total = 0.0
    for k in range(uint64(size)):
        total += a[row_a, from_a + k] * b[row_b, from_b + k]
    return total


@njit(nogil=True)
def _dot(a: Any, i: int, a_low: int, b: Any, j: int, b_low: int, size: int, wide: bool) -> Any:
    """Σ of ``size`` products along row ``i`` of one chart and row ``j`` of another."""
    if not wide:
        return _plain_dot(a[0], i, a_low, b[0], j, b_low, size), 0
    a_high = a_low + size
    b_high = b_low + size
    return wide_dot(a[0][i, a_low:a_high], a[1][i, a_low:a_high], b[0][j, b_low:b_high], b[1][j, b_low:b_high])


@njit(nogil=True)
def _times(number: Any, chart: Any, i: int, j: int, wide: bool) -> Any:
    """A number times a cell of a chart."""
    if not wide:
        return number[0] * chart[0][i, j], 0
    return normal(number[0] * chart[0][i, j], number[1] + chart[1][i, j])


@njit(nogil=True)
def _plus(a: Any, b: Any, wide: bool) -> Any:
    if not wide:
        return a[0] + b[0], 0
    m, e = wide_sum(a[0], a[1], b[0], b[1])
    return normal(m, e)


@njit(nogil=True)
def _put(chart: Any, i: int, j: int, number: Any, wide: bool) -> None:
    chart[0][i, j] = number[0]
    if wide:
        chart[1][i, j] = number[1]


@njit(nogil=True)
def inside(w: Any, n: int, single_root: bool, wide: bool, c: Any, ct: Any, i: Any, it: Any) -> Any:
    """The sums of half-trees of one sentence. Returns the total."""
    for h in range(n + 1):
        _put(c, h, h, (1.0, 0), wide)
        _put(ct, h, h, (1.0, 0), wide)
    for width in range(1, n + 1):
        for a in range(n + 1 - width):
            b = a + width
            # Between the root and its only dependent nothing may stand but that one's own half-tree.
            size = 1 if single_root and a == 0 else width
            below = _dot(c, a, a, c, b, a + 1, size, wide)
            for h, m, _ in ((a, b, 0), (b, a, 0)):
                number = _times(below, w, h, m, wide)
                _put(i, h, m, number, wide)
                _put(it, m, h, number, wide)
            for h, e, low in ((a, b, a + 1), (b, a, a)):
                number = _dot(i, h, low, ct, e, low, width, wide)
                _put(c, h, e, number, wide)
                _put(ct, e, h, number, wide)
    return c[0][0, n], c[1][0, n]


@njit(nogil=True)
def _outside(
    w: Any, n: int, single_root: bool, wide: bool, c: Any, ct: Any, it: Any, dc: Any, dct: Any, di: Any, ds: Any
) -> None:
    """The derivatives of the total by all cells, from the widest to the narrowest."""
    for width in range(n, 0, -1):
        for a in range(n + 1 - width):
            b = a + width
            # A half-tree from h to e is a part below an arc from h to beyond e, or the end of one from further off.
            low = 1 if single_root and a > 1 else 0
            for h, e, beyond, least, most, far, far_most in (
                (a, b, b + 1, b + 1, n + 1, 0, a),
                (b, a, a - 1, low, a, b + 1, n + 1),
            ):
                number = (0.0, ZERO_EXPONENT)
                if h == 0 and (single_root or width == n):  # the root's half-tree must reach to the end
                    number = (1.0, 0) if width == n else number
                elif least < most:
                    number = _dot(ds, h, least, ct, beyond, least, most - least, wide)
                if far < far_most:
                    number = _plus(number, _dot(dct, e, far, it, h, far, far_most - far, wide), wide)
                _put(dc, h, e, number, wide)
                _put(dct, e, h, number, wide)
            below = (0.0, ZERO_EXPONENT)
            for h, m, least, most in ((a, b, b, n + 1), (b, a, 0, a + 1)):
                number = _dot(dc, h, least, c, m, least, most - least, wide)
                _put(di, h, m, number, wide)
                below = _plus(below, _times(number, w, h, m, wide), wide)
            _put(ds, a, b, below, wide)
            _put(ds, b, a, below, wide)


@njit(nogil=True)
def _write_marginals(x: Any, n: int, wide: bool, total: Any, i: Any, di: Any, least: float, marginals: Any) -> bool:
    """The probabilities of arcs. Returns whether floats sufficed for all of them."""
    inexact_is_none = marginals.itemsize == 4 and least < _NONE_32 * total[0]
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h == m:
                continue
            if wide:
                m1 = i[0][h, m]
                m2 = di[0][h, m]
                marginals[h, m] = narrow(m1 * m2 / total[0], i[1][h, m] + di[1][h, m] - total[1])
                continue
            share = i[0][h, m] * di[0][h, m]
            if x[h, m] > -np.inf and not share > least and not inexact_is_none:
                return False
            marginals[h, m] = share / total[0]  # a certain arc has exactly 1, which a factor would round
    return True


@njit(nogil=True)
def _sum_row(x: Any, n: int, single_root: bool, both_ways: bool, wide: bool, m: Any, e: Any, marginals: Any) -> Any:
    """(log Z without the shifts, whether it and the probabilities are exact) of one sentence."""
    w = (m[0], e[0])
    c = (m[1], e[1])
    ct = (m[2], e[2])
    i = (m[3], e[3])
    it = (m[4], e[4])
    dc = (m[5], e[5])
    dct = (m[6], e[6])
    di = (m[7], e[7])
    ds = (m[8], e[8])
    thin = 0.0 if wide else _LOG_GROWTH
    weigh(x, n, thin, wide, w[0], w[1])
    total = inside(w, n, single_root, wide, c, ct, i, it)
    log_z = wide_log(total[0], total[1]) if wide else np.log(total[0])
    least = 1e-300 * n**3 * GROWTH**n
    if not wide and not least < total[0] < 1e300:
        return log_z, False
    if both_ways and total[0] != 0:
        _outside(w, n, single_root, wide, c, ct, it, dc, dct, di, ds)
        if not _write_marginals(x, n, wide, total, i, di, least, marginals):
            return log_z, False
    return log_z + n * thin, True


@njit(nogil=True)
def _sum_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, both_ways: bool, wide: bool, log_z: Any,
    marginals: Any, exact: Any,
) -> None:  # fmt: skip
    size = arcs.shape[1]
    x = np.zeros((size, size))
    top = np.empty(size)
    m = np.zeros((9, size, size))
    e = np.zeros((9, size, size), np.int64)
    for r in range(low, high):
        if wide and exact[r]:
            continue
        shift = level(arcs[r], lengths[r], single_root, x, top)
        mine = marginals[r] if both_ways else marginals[0]
        log_z[r], exact[r] = _sum_row(x, lengths[r], single_root, both_ways, wide, m, e, mine)
        log_z[r] += shift


@jit("3", "i1", "b", "i", "i", "b", "d1", "3", "b1")
def sum_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, both_ways: bool, log_z: Any, marginals: Any,
    exact: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high`` and whether floats sufficed for it.

    With ``both_ways`` also the probabilities of arcs, which must be 0 before.
    """
    _sum_rows(arcs, lengths, single_root, low, high, both_ways, False, log_z, marginals, exact)


@jit("3", "i1", "b", "i", "i", "b", "d1", "3", "b1")
def rescue_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, both_ways: bool, log_z: Any, marginals: Any,
    exact: Any,
) -> None:  # fmt: skip
    """The same in wide numbers, for the rows that are not exact."""
    _sum_rows(arcs, lengths, single_root, low, high, both_ways, True, log_z, marginals, exact)
