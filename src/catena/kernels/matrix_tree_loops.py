"""The compiled loops that sum over non-projective trees, without a subtraction. Knows numpy arrays alone.

The formulas are those of :mod:`catena.kernels.matrix_tree_plain`. Words are numbered from 0 here, and rows
belong to
dependents: ``a[m, h]`` is the weight of head ``h`` for word ``m``, and ``a[m, n]`` that of the root.

**Probabilities.** ``up[h, m]`` is the chance that a walk from ``h`` up ends at the root before it comes to
``m`` (for a single root: that chance by the root's weight, as the latter goes to 0). It takes the elimination
of all words but ``m``. The words are halved again and again: what is left after one half is eliminated serves
for all words of the other, so that all of it takes no more than four eliminations' time. Coming back, the
chances of the half that was eliminated follow from those of the half that was left; ``q[k, h]`` are the
chances of the heads of ``k`` when it was eliminated.

**Why this is exact.** No weight is above 1, nothing is subtracted, and the sums of heads' weights never grow.
What underflow takes is less than the least float, and grows by no more than the product of all 1 / d. Where
that product is beyond 1 / LEAST, or a probability of a possible arc is below TINY, the sentence is reported
and done again by :mod:`catena.kernels.matrix_tree_wide`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.compiled import SUMS, compiled
from catena.kernels.eisner_loops import level, weigh

LEAST = 1e-200
TINY = 1e-250

UP, DOWN, BACK, LEAF = 0, 1, 2, 3
"""What to do with a stretch of words: eliminate its lower half; come back from that and eliminate its upper
half; come back from that; or nothing, for it is one word.
"""


@njit(nogil=True)
def halving(n: int, plan: Any) -> int:
    """The order of work: rows (what to do, depth, low, high) of the plan. Returns their number, at most 4 n."""
    if n == 0:
        return 0
    stack = np.empty((66, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = UP, 0, n
    depth, size = 0, 0
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
def _add_four(to: Any, q0: float, q1: float, q2: float, q3: float, of0: Any, of1: Any, of2: Any, of3: Any) -> None:
    """Four rows, each times a number, onto one."""
    for k in range(to.shape[0]):
        to[k] += (q0 * of0[k] + q1 * of1[k]) + (q2 * of2[k] + q3 * of3[k])


@njit(nogil=True, fastmath=set(SUMS))
def _add(to: Any, q: float, of: Any) -> None:
    for k in range(to.shape[0]):
        to[k] += q * of[k]


@njit(nogil=True, fastmath=set(SUMS))
def _share_out(a: Any, k: int, n: int, low: int, high: int, with_root: bool, q: Any) -> float:
    """The chances of the heads of ``k`` among the words ``low`` to ``high`` and the root, into row ``k`` of
    ``q``.

    Returns d.
    """
    row, chance = a[k, low:high], q[k, low:high]
    d = 0.0
    for h in range(high - low):
        d += row[h]
    d += a[k, n] if with_root else 0.0
    scale = 1 / d if d > 0 else 0.0
    for h in range(high - low):
        chance[h] = row[h] * scale
    q[k, n] = a[k, n] * scale
    return d


@njit(nogil=True)
def _pass_on(a: Any, m: int, k: int, n: int, low: int, high: int, q: Any) -> None:
    """Where ``m`` would have ``k`` for its head it has the heads of ``k``, among ``low`` to ``high`` and the root."""
    weight = a[m, k]
    _add(a[m, low:high], weight, q[k, low:high])
    a[m, n] += weight * q[k, n]


@njit(nogil=True)
def _eliminate(a: Any, n: int, low: int, mid: int, high: int, upwards: bool, with_root: bool, q: Any, ds: Any) -> int:
    """Eliminate the words from ``low`` to ``mid``, or from ``high`` down to ``mid``, four at a time; d goes
    to ``ds``.

    Returns how many they are.
    """
    todo, step = (mid - low, 1) if upwards else (high - mid, -1)
    for done in range(0, todo, 4):
        size = min(4, todo - done)
        k0 = low + done if upwards else high - 1 - done
        for t in range(size):
            k = k0 + t * step
            first, last = (k + 1, high) if upwards else (low, k)
            ds[done + t] = _share_out(a, k, n, first, last, with_root, q)
            for s in range(t + 1, size):
                _pass_on(a, k0 + s * step, k, n, first, last, q)
        first, last = (k0 + size, high) if upwards else (low, k0 - size + 1)
        if size == 4:
            _pass_on_four(a, k0, step, n, first, last, q)
        else:
            for t in range(size):
                k = k0 + t * step
                far_first, far_last = (k + 1, high) if upwards else (low, k)
                for m in range(first, last):
                    _pass_on(a, m, k, n, far_first, far_last, q)
    return todo


@njit(nogil=True)
def _pass_on_four(a: Any, k0: int, step: int, n: int, first: int, last: int, q: Any) -> None:
    """:func:`_pass_on` for four words, one after the other, and all that are left."""
    k1, k2, k3 = k0 + step, k0 + 2 * step, k0 + 3 * step
    q01, q02, q03, q12, q13, q23 = q[k0, k1], q[k0, k2], q[k0, k3], q[k1, k2], q[k1, k3], q[k2, k3]
    of0, of1, of2, of3 = q[k0, first:last], q[k1, first:last], q[k2, first:last], q[k3, first:last]
    r0, r1, r2, r3 = q[k0, n], q[k1, n], q[k2, n], q[k3, n]
    for m in range(first, last):
        v0 = a[m, k0]
        v1 = a[m, k1] + v0 * q01
        v2 = a[m, k2] + v0 * q02 + v1 * q12
        v3 = a[m, k3] + v0 * q03 + v1 * q13 + v2 * q23
        _add_four(a[m, first:last], v0, v1, v2, v3, of0, of1, of2, of3)
        a[m, n] += (v0 * r0 + v1 * r1) + (v2 * r2 + v3 * r3)


@njit(nogil=True)
def _come_back(k: int, n: int, low: int, high: int, left_low: int, left_high: int, q: Any, up: Any) -> None:
    """``up`` of a word eliminated when ``low`` to ``high`` were left, for the words that were left at the end."""
    to = up[k, left_low:left_high]
    for m in range(left_high - left_low):
        to[m] = q[k, n]
    h = low
    while h + 4 <= high:
        of0, of1 = up[h, left_low:left_high], up[h + 1, left_low:left_high]
        of2, of3 = up[h + 2, left_low:left_high], up[h + 3, left_low:left_high]
        _add_four(to, q[k, h], q[k, h + 1], q[k, h + 2], q[k, h + 3], of0, of1, of2, of3)
        h += 4
    while h < high:
        _add(to, q[k, h], up[h, left_low:left_high])
        h += 1


@njit(nogil=True)
def _copy(a: Any, b: Any, n: int, low: int, high: int) -> None:
    for m in range(low, high):
        to, of = b[m, low:high], a[m, low:high]
        for h in range(high - low):
            to[h] = of[h]
        b[m, n] = a[m, n]


@njit(nogil=True)
def fill_up(a: Any, q: Any, n: int, with_root: bool, up: Any, plan: Any, losses: Any, ds: Any) -> Any:
    """All of ``up`` from the weights ``a[0]``. Returns (log Z without the shifts, whether floats sufficed)."""
    losses[0], log_z = 1.0, 0.0
    for i in range(halving(n, plan)):
        task, depth, low, high = plan[i]
        mid = (low + high) // 2
        if task == LEAF:
            up[low, low] = 0.0
            if high == n:
                log_z += np.log(a[depth, low, n])
            if not losses[depth] * min(a[depth, low, n], 1.0) > LEAST:
                return log_z, False
            continue
        if task == DOWN:
            for k in range(mid - 1, low - 1, -1):
                _come_back(k, n, k + 1, high, mid, high, q[depth], up)
        elif task == BACK:
            for k in range(mid, high):
                _come_back(k, n, low, k, low, mid, q[depth], up)
            continue
        _copy(a[depth], a[depth + 1], n, low, high)
        count = _eliminate(a[depth + 1], n, low, mid, high, task == UP, with_root, q[depth], ds)
        loss, log_d = _lost(ds, count)
        losses[depth + 1] = losses[depth] * loss
        if not losses[depth + 1] > LEAST:
            return log_z, False
        if task == UP and high == n:
            log_z += log_d
    return log_z, True


@njit(nogil=True)
def _lost(ds: Any, count: int) -> Any:
    """(the product of all d below 1, the log of the product of all)."""
    loss, log_d = 1.0, 0.0
    for i in range(count):
        loss *= min(ds[i], 1.0)
        log_d += np.log(ds[i])
    return loss, log_d


@njit(nogil=True, fastmath=set(SUMS), error_model="numpy")
def _chances(x: Any, w: Any, n: int, up: Any, norms: Any, chances: Any) -> bool:
    """The probabilities of arcs; ``norms`` is scratch. Returns whether floats sufficed."""
    for m in range(n):
        norms[m] = w[0, m + 1]
    for h in range(n):
        weight, chance = w[h + 1, 1 : n + 1], up[h, :n]
        for m in range(n):
            norms[m] += weight[m] * chance[m]
    for m in range(n):
        norms[m] = 1 / norms[m]
    small = 0
    for h in range(n + 1):
        score, weight, result = x[h, 1 : n + 1], w[h, 1 : n + 1], chances[h, 1 : n + 1]
        chance = up[max(h - 1, 0), :n]
        for m in range(n):
            share = weight[m] * (chance[m] if h > 0 else 1.0)
            result[m] = share * norms[m]
            small += (score[m] > -np.inf) & (not (share > TINY and result[m] > TINY))
    return small == 0


@compiled("3", "i1", "b", "i", "i", "b", "1", "3", "b1")
def sum_rows(
    arcs: Any, lengths: Any, single_root: bool, low: int, high: int, both_ways: bool, log_z: Any, chances: Any,
    exact: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high`` and whether floats sufficed for it.

    With ``both_ways`` also the probabilities of arcs, which must be 0 before.
    """
    size, depths = arcs.shape[1], 1
    while 1 << (depths - 1) < size:
        depths += 1
    x, w, up = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    a, q = np.zeros((depths, size, size)), np.zeros((depths, size, size))
    ds, losses, plan = np.empty(size), np.empty(depths), np.empty((4 * size, 4), np.int64)
    for r in range(low, high):
        n = lengths[r]
        shift = level(arcs[r], n, single_root, x, ds)
        weigh(x, n, 0.0, False, w, plan)
        for h in range(n + 1):
            for m in range(n):
                a[0, m, h - 1 if h > 0 else n] = w[h, m + 1]
        if both_ways:
            log_z[r], exact[r] = fill_up(a, q, n, not single_root, up, plan, losses, ds)
            if exact[r]:
                exact[r] = _chances(x, w, n, up, ds, chances[r])
        elif n > 0:
            _eliminate(a[0], n, 0, n - 1, n, True, not single_root, q[0], ds)
            ds[n - 1] = a[0, n - 1, n]
            loss, log_z[r] = _lost(ds, n)
            exact[r] = loss > LEAST
        else:
            log_z[r], exact[r] = 0.0, True
        log_z[r] += shift
