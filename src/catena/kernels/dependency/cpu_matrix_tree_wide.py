"""Sums over non-projective trees in numbers of unbounded range, where ``matrix_tree_loops`` would underflow.

The algorithm is as in :mod:`catena.kernels.dependency.cpu_matrix_tree`, with rows for heads here: ``a[h, m]``, and
the root in row ``n``. The probabilities of the heads of an eliminated word stay in its column. A matrix is a pair
of arrays, of mantissas and of exponents. The core of a sentence with a single root is explained in
:mod:`catena.kernels.dependency.reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.floats import ZERO_EXPONENT, narrow, normal, power, wide_log, wide_sum
from catena.kernels.common.jit import jit
from catena.kernels.dependency.cpu_eisner import level, weigh
from catena.kernels.dependency.cpu_matrix_tree import BACK, DOWN, LEAF, UP, halving


@njit(nogil=True)
def _add_row(a: Any, i: int, qm: float, qe: int, b: Any, j: int, low: int, high: int) -> None:
    """a[i, low:high] += q b[j, low:high]."""
    to = a[0][i, low:high]
    to_e = a[1][i, low:high]
    of = b[0][j, low:high]
    of_e = b[1][j, low:high]
    for k in range(high - low):
        e = qe + of_e[k]
        if e > to_e[k]:
            to[k] = to[k] * power(to_e[k] - e) + qm * of[k]
            to_e[k] = e
        else:
            to[k] += qm * of[k] * power(e - to_e[k])


@njit(nogil=True)
def _copy(a: Any, b: Any, n: int, low: int, high: int) -> None:
    for i in range(low, high + 1):
        row = i if i < high else n
        for k in range(low, high):
            b[0][row, k] = a[0][row, k]
            b[1][row, k] = a[1][row, k]


@njit(nogil=True)
def _pivot(a: Any, k: int, n: int, low: int, high: int, core: Any) -> Any:
    """d: the summed weights of the heads of ``k`` among ``low`` to ``high``, and of the root where it counts."""
    m, e = (0.0, ZERO_EXPONENT) if core[k] else (a[0][n, k], a[1][n, k])
    for h in range(low, high):
        m, e = wide_sum(m, e, a[0][h, k], a[1][h, k])
    if m == 0 and core[k]:  # the last of the core has the root for its head
        m = a[0][n, k]
        e = a[1][n, k]
    return normal(m, e)


@njit(nogil=True)
def eliminate_word(a: Any, n: int, low: int, mid: int, high: int, upwards: bool, core: Any) -> float:
    """Eliminate the words from ``low`` to ``mid``, or from ``high`` down to ``mid``.

    Returns the log of the product of all d, which is -inf where some d is 0.
    """
    log_d = 0.0
    for step in range(mid - low if upwards else high - mid):
        k = low + step if upwards else high - 1 - step
        first, last = (k + 1, high) if upwards else (low, k)
        m, e = _pivot(a, k, n, first, last, core)
        if m == 0:
            return -np.inf
        log_d += wide_log(m, e)
        for i in range(first, last + 1):
            row = i if i < last else n
            a[0][row, k], a[1][row, k] = normal(a[0][row, k] / m, a[1][row, k] - e)
            if a[0][row, k] > 0:
                _add_row(a, row, a[0][row, k], a[1][row, k], a, k, first, last)
    return log_d


@njit(nogil=True)
def back_substitute(a: Any, n: int, low: int, mid: int, high: int, upwards: bool, up: Any) -> None:
    """``up`` of the words that were eliminated, for those that were left, the last eliminated first."""
    left_low, left_high = (mid, high) if upwards else (low, mid)
    for step in range(mid - low if upwards else high - mid):
        k = mid - 1 - step if upwards else mid + step
        first, last = (k + 1, high) if upwards else (low, k)
        for m in range(left_low, left_high):
            up[0][k, m] = a[0][n, k]
            up[1][k, m] = a[1][n, k]
        for h in range(first, last):
            if a[0][h, k] > 0:
                _add_row(up, k, a[0][h, k], a[1][h, k], up, h, left_low, left_high)


@njit(nogil=True)
def _fill_up(ms: Any, es: Any, n: int, core: Any, up: Any, plan: Any) -> float:
    """All of ``up`` from the weights ``ms[0]``, ``es[0]``. Returns log Z without the shifts."""
    log_z = 0.0
    for i in range(halving(n, plan)):
        task, depth, low, high = plan[i]
        mid = (low + high) // 2
        if task == LEAF:
            up[0][low, low] = 0.0
            up[1][low, low] = ZERO_EXPONENT
            if high == n:
                log_z += wide_log(ms[depth, n, low], es[depth, n, low])
            continue
        below = (ms[depth + 1], es[depth + 1])
        if task in (DOWN, BACK):
            back_substitute(below, n, low, mid, high, task == DOWN, up)
        if task == BACK:
            continue
        _copy((ms[depth], es[depth]), below, n, low, high)
        log_d = eliminate_word(below, n, low, mid, high, task == UP, core)
        if log_d == -np.inf:
            return log_d
        if task == UP and high == n:
            log_z += log_d
    return log_z


@njit(nogil=True)
def _head_weight(w: Any, h: int, m: int, core: Any, some_core: bool, up: Any) -> Any:
    """The weight of all trees where ``h`` is the head of ``m``, up to a factor for each ``m``."""
    weight = w[0][h, m]
    e = w[1][h, m]
    outside = some_core and not core[m - 1]
    if h == 0:
        return (0.0, ZERO_EXPONENT) if outside else (weight, e)
    if outside and core[h - 1]:  # the core never comes to a word outside
        return weight, e
    return weight * up[0][h - 1, m - 1], e + up[1][h - 1, m - 1]


@njit(nogil=True)
def _write_marginals(n: int, w: Any, core: Any, some_core: bool, up: Any, marginals: Any) -> None:
    """The probabilities of arcs."""
    for m in range(1, n + 1):
        total_m = 0.0
        total_e = ZERO_EXPONENT
        for h in range(n + 1):
            if h != m:
                weight, e = _head_weight(w, h, m, core, some_core, up)
                total_m, total_e = wide_sum(total_m, total_e, weight, e)
        for h in range(n + 1):
            if h != m and total_m > 0:
                weight, e = _head_weight(w, h, m, core, some_core, up)
                marginals[h, m] = narrow(weight / total_m, e - total_e)


@njit(nogil=True)
def find_core(x: Any, n: int, core: Any) -> bool:
    """The words that can be an ancestor of all others. Whether there are any."""
    stack = np.empty(n, np.int64)
    seen = np.empty(n, np.bool_)
    candidate = 0
    for turn in range(3):
        # First find the only word that may reach all; then see whether it does; then who reaches it.
        seen[:] = False
        for start in range(n):
            if seen[start] or (turn > 0 and start != candidate):
                continue
            candidate = start
            depth = 1
            stack[0] = start
            seen[start] = True
            while depth > 0:
                depth -= 1
                here = stack[depth]
                for m in range(n):
                    arc = x[m + 1, here + 1] if turn == 2 else x[here + 1, m + 1]
                    if not seen[m] and arc > -np.inf:
                        seen[m] = True
                        stack[depth] = m
                        depth += 1
        if turn == 1 and not seen.all():
            return False
    core[:n] = seen
    return True


@njit(nogil=True)
def fill(w: Any, n: int, core: Any, some_core: bool, a: Any) -> None:
    """The weights in the numbering of this file. Words outside the core hang from it as from the root."""
    for m in range(n):
        outside = some_core and not core[m]
        a[0][n, m], a[1][n, m] = (0.0, ZERO_EXPONENT) if outside else (w[0][0, m + 1], w[1][0, m + 1])
        for h in range(n):
            weight = w[0][h + 1, m + 1]
            e = w[1][h + 1, m + 1]
            if outside and core[h]:
                a[0][n, m], a[1][n, m] = wide_sum(a[0][n, m], a[1][n, m], weight, e)
                weight = 0.0
                e = ZERO_EXPONENT
            a[0][h, m] = weight
            a[1][h, m] = e
        a[0][n, m], a[1][n, m] = normal(a[0][n, m], a[1][n, m])


@njit(nogil=True)
def prepare(x: Any, n: int, single_root: bool, w: Any, core: Any, a: Any) -> bool:
    """The weights of arcs, the core and the matrix to eliminate from. Returns whether there can be a tree."""
    core[:n] = False
    some_core = single_root and find_core(x, n, core)
    weigh(x, n, 0.0, True, w[0], w[1])
    fill(w, n, core, some_core, a)
    return some_core or not single_root


@jit("3", "i1", "b", "i", "i", "b", "d1", "3", "b1")
def rescue_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, both_ways: bool, log_z: Any, marginals: Any,
    exact: Any,
) -> None:  # fmt: skip
    """log Z of the rows of ``low`` to ``high`` that are not exact, and with ``both_ways`` the probabilities of arcs."""
    size = arcs.shape[1]
    depths = 1
    while 1 << (depths - 1) < size:
        depths += 1
    x = np.empty((size, size))
    core = np.empty(size, np.bool_)
    scratch = np.empty(size)
    ms = np.empty((depths + 2, size, size))
    es = np.empty((depths + 2, size, size), np.int64)
    w = (ms[depths], es[depths])
    up = (ms[depths + 1], es[depths + 1])
    plan = np.empty((4 * size, 4), np.int64)
    for r in range(low, high):
        n = lengths[r]
        if exact[r] or n == 0:
            continue
        exact[r] = True
        shift = level(arcs[r], n, single_root, x, scratch)
        a = (ms[0], es[0])
        if not prepare(x, n, single_root, w, core, a):
            log_z[r] = -np.inf
            continue
        if both_ways:
            log_z[r] = _fill_up(ms, es, n, core, up, plan)
            if log_z[r] > -np.inf:
                _write_marginals(n, w, core, single_root, up, marginals[r])
        else:
            log_z[r] = eliminate_word(a, n, 0, n - 1, n, True, core)
            log_z[r] += wide_log(a[0][n, n - 1], a[1][n, n - 1])
        log_z[r] += shift
