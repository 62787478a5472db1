r"""Sums over all ways to edit one string into another, and into any other, on the CPU.

At place i of a source of n symbols, after the target symbol p (0 before the first), an edit

* substitutes: reads symbol i, writes q, with the score ``sub[i, p, q]``;
* deletes: reads symbol i, writes nothing, ``dele[i, p]``;
* inserts: reads nothing, writes q, ``ins[i, p, q]``;
* ends, where i = n: ``end[p]``.

Insertions make cycles, so the sum over all targets is a geometric series of matrices at each place:

.. math::  x = a + x W = a (I - W)^{-1}, \qquad  W_{pq} = \exp \mathrm{ins}_{i p q}

It is solved by elimination without pivots, which are all above 0 if and only if the series converges. Symbols of the
target are numbered from 0 in ``q``, and one higher in ``p``. All numbers are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.floats import log_add
from catena.kernels.common.jit import DOUBLES, DOUBLES2, DOUBLES3, DOUBLES4, LONGS, LONGS2, lazy_jit
from catena.kernels.edits.reference_search import LEAST_PIVOT


@njit(nogil=True)
def _factor(ins: Any, lu: Any) -> bool:
    """I - W of the symbols of the target, factored in place; False where the series diverges."""
    v = ins.shape[1]
    for p in range(v):
        for q in range(v):
            lu[p, q] = -np.exp(ins[p + 1, q])
        lu[p, p] += 1.0
    for k in range(v):
        if not lu[k, k] > LEAST_PIVOT:
            return False
        for i in range(k + 1, v):
            factor = lu[i, k] / lu[k, k]
            lu[i, k] = factor
            if factor != 0.0:
                for j in range(k + 1, v):
                    lu[i, j] -= factor * lu[k, j]
    return True


@njit(nogil=True)
def _solve_left(lu: Any, ins: Any, a: Any) -> None:
    """a becomes a (I - W)⁻¹; a[0] belongs to the beginning, which nothing is inserted into."""
    v = lu.shape[0]
    for q in range(v):
        a[q + 1] += a[0] * np.exp(ins[0, q])
    for q in range(v):
        total = a[q + 1]
        for k in range(q):
            total -= a[k + 1] * lu[k, q]
        a[q + 1] = total / lu[q, q]
    for q in range(v - 1, -1, -1):
        for k in range(q + 1, v):
            a[q + 1] -= a[k + 1] * lu[k, q]


@njit(nogil=True)
def _solve_right(lu: Any, ins: Any, b: Any) -> None:
    """b becomes (I - W)⁻¹ b."""
    v = lu.shape[0]
    for p in range(v):
        for k in range(p):
            b[p + 1] -= lu[p, k] * b[k + 1]
    for p in range(v - 1, -1, -1):
        for k in range(p + 1, v):
            b[p + 1] -= lu[p, k] * b[k + 1]
        b[p + 1] /= lu[p, p]
    for q in range(v):
        b[0] += np.exp(ins[0, q]) * b[q + 1]


@njit(nogil=True)
def _scaled(a: Any) -> float:
    """Divide by the greatest number; its log."""
    top = 0.0
    for p in range(len(a)):
        top = max(top, a[p])
    if top <= 0.0:
        return -np.inf
    for p in range(len(a)):
        a[p] /= top
    return np.log(top)


@njit(nogil=True)
def _reads_nan(sub: Any, ins: Any, dele: Any, end: Any, n: int) -> bool:
    """Whether a score of a source of ``n`` symbols is nan or +inf; an insertion of +inf diverges instead."""
    wrong = np.isnan(ins[: n + 1]).any()
    for x in (sub[:n].ravel(), dele[:n].ravel(), end):
        for score in x:
            wrong = wrong or not score < np.inf
    return wrong


@njit(nogil=True)
def _backward(sub: Any, ins: Any, dele: Any, end: Any, n: int, lu: Any, beta: Any, scale: Any) -> bool:
    """``beta[i, p] · exp(scale[i])`` is the weight of all that may follow at place i after p. False: it diverges."""
    states = len(end)
    v = len(end) - 1
    top = end.max()
    for p in range(states):
        beta[n, p] = np.exp(end[p] - top) if top > -np.inf else 0.0
    scale[n] = top
    for i in range(n, -1, -1):
        if i < n:
            top = -np.inf
            for p in range(states):
                top = max(top, dele[i, p])
                for q in range(v):
                    top = max(top, sub[i, p, q])
            for p in range(states):
                total = 0.0
                if top > -np.inf:
                    total = np.exp(dele[i, p] - top) * beta[i + 1, p]
                    for q in range(v):
                        total += np.exp(sub[i, p, q] - top) * beta[i + 1, q + 1]
                beta[i, p] = total
            scale[i] = scale[i + 1] + top
        if not _factor(ins[i], lu[i]):
            return False
        _solve_right(lu[i], ins[i], beta[i])
        scale[i] += _scaled(beta[i])
    return True


@njit(nogil=True)
def _add_gradients(
    sub: Any, ins: Any, dele: Any, end: Any, n: int, lu: Any, beta: Any, scale: Any, log_z: float,
    weight: float, d_sub: Any, d_ins: Any, d_dele: Any, d_end: Any,
) -> None:  # fmt: skip
    """Add ``weight`` times the probability of every edit under the sum over all targets."""
    states = len(end)
    v = len(end) - 1
    alpha = np.zeros(states)
    after = np.zeros(states)
    alpha[0] = 1.0
    gone = 0.0
    for i in range(n + 1):
        _solve_left(lu[i], ins[i], alpha)
        gone += _scaled(alpha)
        here = weight * np.exp(gone + scale[i] - log_z)
        for p in range(states):
            if alpha[p] > 0.0:
                for q in range(v):
                    d_ins[i, p, q] += here * alpha[p] * np.exp(ins[i, p, q]) * beta[i, q + 1]
        if i == n:
            for p in range(states):
                d_end[p] += weight * alpha[p] * np.exp(gone + end[p] - log_z)
            return
        top = -np.inf
        for p in range(states):
            top = max(top, dele[i, p])
            for q in range(v):
                top = max(top, sub[i, p, q])
        onward = weight * np.exp(gone + top + scale[i + 1] - log_z)
        after[:] = 0.0
        for p in range(states):
            if alpha[p] > 0.0:
                way = alpha[p] * np.exp(dele[i, p] - top)
                after[p] += way
                d_dele[i, p] += onward * way * beta[i + 1, p]
                for q in range(v):
                    way = alpha[p] * np.exp(sub[i, p, q] - top)
                    after[q + 1] += way
                    d_sub[i, p, q] += onward * way * beta[i + 1, q + 1]
        alpha[:] = after
        gone += top


@lazy_jit(
    DOUBLES4, DOUBLES4, DOUBLES3, DOUBLES2, LONGS, int64, int64, DOUBLES, DOUBLES4, DOUBLES4, DOUBLES3, DOUBLES2,
)  # fmt: skip
def totals(
    sub: Any, ins: Any, dele: Any, end: Any, lengths: Any, low: int, high: int,
    log_z: Any, d_sub: Any, d_ins: Any, d_dele: Any, d_end: Any,
) -> int:  # fmt: skip
    """log of the summed weights of all targets of rows low … high - 1, and its gradient; nan where one is read.

    Returns a row that diverges, or -1.
    """
    t = sub.shape[1]
    states = end.shape[1]
    lu = np.empty((t + 1, states - 1, states - 1))
    beta = np.empty((t + 1, states))
    scale = np.empty(t + 1)
    for r in range(low, high):
        n = lengths[r]
        if _reads_nan(sub[r], ins[r], dele[r], end[r], n):
            log_z[r] = np.nan
            d_sub[r] = d_ins[r] = np.nan
            d_dele[r] = d_end[r] = np.nan
            continue
        if not _backward(sub[r], ins[r], dele[r], end[r], n, lu, beta, scale):
            return r
        log_z[r] = scale[0] + np.log(beta[0, 0]) if beta[0, 0] > 0.0 else -np.inf
        if log_z[r] > -np.inf:
            _add_gradients(
                sub[r], ins[r], dele[r], end[r], n, lu, beta, scale, log_z[r], 1.0,
                d_sub[r], d_ins[r], d_dele[r], d_end[r],
            )  # fmt: skip
    return -1


@lazy_jit(DOUBLES3, DOUBLES3, DOUBLES2, DOUBLES, int64, DOUBLES2)
def following(sub: Any, ins: Any, dele: Any, end: Any, n: int, log_beta: Any) -> int:
    """``log_beta[i, p]``: log of the weight of all that may follow at place i after p. 0 where it diverges, else 1."""
    states = len(end)
    lu = np.empty((n + 1, states - 1, states - 1))
    beta = np.empty((n + 1, states))
    scale = np.empty(n + 1)
    if not _backward(sub, ins, dele, end, n, lu, beta, scale):
        return 0
    for i in range(n + 1):
        for p in range(states):
            log_beta[i, p] = scale[i] + np.log(beta[i, p]) if beta[i, p] > 0.0 else -np.inf
    return 1


@lazy_jit(
    DOUBLES4, DOUBLES4, DOUBLES3, DOUBLES2, LONGS, LONGS2, LONGS, int64, int64, DOUBLES, DOUBLES4, DOUBLES4,
    DOUBLES3, DOUBLES2,
)  # fmt: skip
def paths(
    sub: Any, ins: Any, dele: Any, end: Any, lengths: Any, targets: Any, target_lengths: Any, low: int, high: int,
    log_sum: Any, d_sub: Any, d_ins: Any, d_dele: Any, d_end: Any,
) -> None:  # fmt: skip
    """log of the summed weights of all ways to write one target for each row, and its gradient; nan if one is read."""
    alpha = np.empty((sub.shape[1] + 1, targets.shape[1] + 1))
    beta = np.empty_like(alpha)
    for r in range(low, high):
        n = lengths[r]
        m = target_lengths[r]
        y = targets[r]
        for i in range(n + 1):
            for j in range(m + 1):
                total = 0.0 if i == 0 and j == 0 else -np.inf
                p = y[j - 1] + 1 if j else 0
                before = y[j - 2] + 1 if j > 1 else 0
                if i:
                    total = log_add(total, alpha[i - 1, j] + dele[r, i - 1, p])
                if j:
                    total = log_add(total, alpha[i, j - 1] + ins[r, i, before, y[j - 1]])
                if i and j:
                    total = log_add(total, alpha[i - 1, j - 1] + sub[r, i - 1, before, y[j - 1]])
                alpha[i, j] = total
        last = y[m - 1] + 1 if m else 0
        log_sum[r] = alpha[n, m] + end[r, last]
        if log_sum[r] == -np.inf:
            continue
        if not log_sum[r] < np.inf:
            log_sum[r] = np.nan
            d_sub[r] = d_ins[r] = np.nan
            d_dele[r] = d_end[r] = np.nan
            continue
        d_end[r, last] += 1.0
        for i in range(n, -1, -1):
            for j in range(m, -1, -1):
                p = y[j - 1] + 1 if j else 0
                total = end[r, last] if i == n and j == m else -np.inf
                here = alpha[i, j] - log_sum[r]
                if i < n:
                    way = dele[r, i, p] + beta[i + 1, j]
                    d_dele[r, i, p] += np.exp(here + way)
                    total = log_add(total, way)
                if j < m:
                    way = ins[r, i, p, y[j]] + beta[i, j + 1]
                    d_ins[r, i, p, y[j]] += np.exp(here + way)
                    total = log_add(total, way)
                if i < n and j < m:
                    way = sub[r, i, p, y[j]] + beta[i + 1, j + 1]
                    d_sub[r, i, p, y[j]] += np.exp(here + way)
                    total = log_add(total, way)
                beta[i, j] = total


@lazy_jit(DOUBLES3, DOUBLES3, DOUBLES2, LONGS, int64, LONGS)
def best_edits(sub: Any, ins: Any, dele: Any, y: Any, n: int, edits: Any) -> int:
    """The edits of the best way to write a target: 0 deletes, 1 inserts, 2 substitutes. Their number, -1 for none."""
    m = len(y)
    best = np.full((n + 1, m + 1), -np.inf)
    by = np.zeros((n + 1, m + 1), np.int64)
    best[0, 0] = 0.0
    for i in range(n + 1):
        for j in range(m + 1):
            p = y[j - 1] + 1 if j else 0
            before = y[j - 2] + 1 if j > 1 else 0
            if i and j and best[i - 1, j - 1] + sub[i - 1, before, y[j - 1]] > best[i, j]:
                best[i, j] = best[i - 1, j - 1] + sub[i - 1, before, y[j - 1]]
                by[i, j] = 2
            if i and best[i - 1, j] + dele[i - 1, p] > best[i, j]:
                best[i, j] = best[i - 1, j] + dele[i - 1, p]
                by[i, j] = 0
            if j and best[i, j - 1] + ins[i, before, y[j - 1]] > best[i, j]:
                best[i, j] = best[i, j - 1] + ins[i, before, y[j - 1]]
                by[i, j] = 1
    if best[n, m] == -np.inf:
        return -1
    i = n
    j = m
    count = 0
    while i or j:
        edits[count] = by[i, j]
        i, j = i - (by[i, j] != 1), j - (by[i, j] != 0)
        count += 1
    for k in range(count // 2):
        edits[k], edits[count - 1 - k] = edits[count - 1 - k], edits[k]
    return count
