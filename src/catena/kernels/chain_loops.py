"""The compiled loops that sum over chains, row by row of a batch. Knows numpy arrays alone; ``chain`` knows
torch.

All loops share one notation. ``x[r, t, q]`` is the log-weight of tag ``q`` at position ``t`` of row ``r``,
less ``shift[r, t]``, the greatest of that position. ``moves[w, p, q]`` is the log-weight of ``q`` after
``p``, less the greatest of its column, which has gone into ``x``. ``each`` consecutive rows share their
tables: one for all positions (stride 0), or one for each (stride 1), so position ``t`` of row ``r`` is
entered by ``w = r // each * (t_most if stride else 1) + t * stride``.

**Why this is exact.** Forward weights are kept as ``a``, which sums to 1, and a log-scale. Every sum over
predecessors must come out above ``sum_least``, unless nothing can reach the tag at all. Then what underflow
can have taken from it is less than the rounding error, and all forward weights are right to the last digits,
however far apart they lie. Backward weights are scaled so that their product with ``a`` sums to 1 at every
position, so what underflows there is a probability. A row for which the range of the floats does not suffice
is reported and done again: in float64, and if need be in log space.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.compiled import SUMS, compiled

LIMITS = {
    np.dtype(np.float32): (1e-20, 1e-10, 1e18),
    np.dtype(np.float64): (1e-150, 1e-140, 1e150),
}
"""For each dtype:

The least sum over predecessors, the least total of a position, the greatest backward weight.
"""


@njit(nogil=True, fastmath=set(SUMS))
def times_matrix(v: Any, matrix: Any, result: Any) -> None:
    """result[q] = Σ_p v[p] matrix[p, q]. Rows are added, four at a time: the inner loop is a vector unit's."""
    k = result.shape[0]
    for q in range(k):
        result[q] = 0
    p = 0
    while p + 4 <= k:
        v0, v1, v2, v3 = v[p], v[p + 1], v[p + 2], v[p + 3]
        row0, row1, row2, row3 = matrix[p], matrix[p + 1], matrix[p + 2], matrix[p + 3]
        for q in range(k):
            result[q] += (v0 * row0[q] + v1 * row1[q]) + (v2 * row2[q] + v3 * row3[q])
        p += 4
    while p < k:
        v0 = v[p]
        row0 = matrix[p]
        for q in range(k):
            result[q] += v0 * row0[q]
        p += 1


@njit(nogil=True)
def _small_sums_are_exact(
    sums: Any, x: Any, x_before: Any, weight: Any, moves: Any, least: Any, reach: Any, all_reached: bool
) -> Any:
    """Whether each small sum is small because nothing can reach the tag; ``reach`` then says what can be
    reached.

    Returns (exact, whether all tags that are allowed here can be reached).
    """
    k = sums.shape[0]
    before = reach.copy()
    if all_reached:
        for p in range(k):
            before[p] = x_before[p] > -np.inf
    everything = True
    for q in range(k):
        reach[q] = x[q] > -np.inf
        if weight[q] > 0 and sums[q] < least:
            if sums[q] > 0:
                return False, True
            for p in range(k):
                if before[p] and moves[p, q] > -np.inf:
                    return False, True
            reach[q] = False
            everything = False
    return True, everything


@njit(nogil=True)
def _vanished(x: Any, weight: Any) -> bool:
    """Whether the weight of an allowed tag underflowed."""
    for q in range(x.shape[0]):  # noqa: SIM110
        if x[q] > -np.inf and weight[q] == 0:
            return True
    return False


@njit(nogil=True, fastmath=set(SUMS))
def forward(
    x: Any, weight: Any, shift: Any, moves: Any, matrix: Any, table: int, stride: int, n: int, a: Any, norms: Any,
    sums: Any, reach: Any, sum_least: Any, total_least: Any,
) -> Any:  # fmt: skip
    """The forward weights of one row into ``a[:n]``. Returns (log Z, whether it is exact)."""
    k = weight.shape[1]
    log_z = 0.0
    all_reached = True
    for t in range(n):
        total = weight[t, 0] * 0
        if t == 0:
            for q in range(k):
                a[0, q] = weight[0, q]
                total += weight[0, q]
        else:
            w = table + t * stride
            times_matrix(a[t - 1], matrix[w], sums)
            small = 0
            for q in range(k):
                small += (sums[q] < sum_least) & (weight[t, q] > 0)
                a[t, q] = sums[q] * weight[t, q]
                total += a[t, q]
            if small > 0 or not all_reached:
                exact, all_reached = _small_sums_are_exact(
                    sums, x[t], x[t - 1], weight[t], moves[w], sum_least, reach, all_reached
                )
                if not exact:
                    return 0.0, False
        if total < total_least:
            possible = total > 0 or _vanished(x[t], weight[t])
            return (0.0 if possible else -np.inf), not possible
        scale = 1 / total
        for q in range(k):
            a[t, q] *= scale
        norms[t] = total
        log_z += np.log(np.float64(total)) + shift[t]
    return log_z, True


@njit(nogil=True, fastmath=set(SUMS))
def _backward(
    weight: Any, matrix_t: Any, table: int, stride: int, n: int, a: Any, norms: Any, chances: Any, onward: Any,
    sums: Any, most: Any,
) -> bool:  # fmt: skip
    """The marginals of one row, and ``onward[t - 1, q]``, which with ``a[t - 1, p]`` and the matrix makes
    those of pairs.

    Returns whether they are exact.
    """
    k = weight.shape[1]
    for q in range(k):
        sums[q] = 1
        chances[n - 1, q] = a[n - 1, q]
    for t in range(n - 1, 0, -1):
        scale = 1 / norms[t]
        for q in range(k):
            onward[t - 1, q] = weight[t, q] * sums[q] * scale
        times_matrix(onward[t - 1], matrix_t[table + t * stride], sums)
        large = 0
        for p in range(k):
            large += sums[p] > most
            chances[t - 1, p] = a[t - 1, p] * sums[p]
        if large > 0:
            return False
    return True


@njit(nogil=True)
def greatest(v: Any) -> Any:
    """The maximum, in four strands that the processor can follow at once."""
    n = v.shape[0]
    a = b = c = d = v[0]
    i = 0
    while i + 4 <= n:
        a = v[i] if v[i] > a else a
        b = v[i + 1] if v[i + 1] > b else b
        c = v[i + 2] if v[i + 2] > c else c
        d = v[i + 3] if v[i + 3] > d else d
        i += 4
    while i < n:
        a = v[i] if v[i] > a else a
        i += 1
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@compiled("3", "2", "3")
def level_tables(tables: Any, steepest: Any, moves: Any) -> None:
    """``moves``:

    The tables less the greatest of each column, which goes to ``steepest``, as 0 where it is -inf.
    """
    n, k, _ = tables.shape
    for w in range(n):
        for q in range(k):
            steepest[w, q] = -np.inf
        for p in range(k):
            for q in range(k):
                steepest[w, q] = tables[w, p, q] if tables[w, p, q] > steepest[w, q] else steepest[w, q]
        for q in range(k):
            steepest[w, q] = steepest[w, q] if steepest[w, q] > -np.inf else 0
        for p in range(k):
            for q in range(k):
                moves[w, p, q] = tables[w, p, q] - steepest[w, q]


@compiled("3", "2", "2", "2", "i1", "i", "i", "i", "3", "2")
def level_rows(
    emissions: Any, steepest: Any, start: Any, end: Any, lengths: Any, each: int, stride: int, each_edge: int, x: Any,
    shift: Any,
) -> None:  # fmt: skip
    """``x`` and ``shift`` of all rows. What lies beyond a length is set to 0."""
    rows, t_most, k = emissions.shape
    for r in range(rows):
        n, edge = lengths[r], r // each_edge
        table = r // each * (t_most if stride else 1)
        for t in range(t_most):
            entry = start[edge] if t == 0 else steepest[table + t * stride]
            for q in range(k):
                x[r, t, q] = emissions[r, t, q] + entry[q] if t < n else 0
            if t == n - 1:
                for q in range(k):
                    x[r, t, q] += end[edge, q]
            top = greatest(x[r, t])
            top = top if top > -np.inf else 0
            shift[r, t] = top
            for q in range(k):
                x[r, t, q] -= top


@njit(nogil=True)
def _clear(rows: Any, first: int) -> None:
    for t in range(first, rows.shape[0]):
        for q in range(rows.shape[1]):
            rows[t, q] = 0


@compiled(
    "3", "3", "2", "3", "3", "3", "i", "i", "i1", "i", "i", "b", "d1", "3", "3", "3", "b1", "f", "f", "f", fastmath=SUMS
)
def sum_rows(
    x: Any, weight: Any, shift: Any, moves: Any, matrix: Any, matrix_t: Any, each: int, stride: int,
    lengths: Any, low: int, high: int, both_ways: bool, log_z: Any, a: Any, chances: Any, onward: Any, exact: Any,
    sum_least: Any, total_least: Any, most: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high`` and whether it is exact; with ``both_ways`` all that its gradient
    is made of.

    ``a``, ``chances`` and ``onward`` are 0 beyond a length and where a row is impossible or not exact. One
    way only, they are not written, and ``a`` is scratch, one row for each call.
    """
    k = x.shape[2]
    norms, sums, reach = np.empty(x.shape[1], x.dtype), np.empty(k, x.dtype), np.empty(k, np.bool_)
    for r in range(low, high):
        n, table = lengths[r], r // each * (x.shape[1] if stride else 1)
        mine = a[r] if both_ways else a[0]
        log_z[r], exact[r] = forward(
            x[r], weight[r], shift[r], moves, matrix, table, stride, n, mine, norms, sums, reach, sum_least, total_least
        )
        if not both_ways:
            continue
        if not (exact[r] and log_z[r] != -np.inf):
            n = 0
        if n > 0:
            exact[r] = _backward(weight[r], matrix_t, table, stride, n, mine, norms, chances[r], onward[r], sums, most)
            if not exact[r]:
                n = 0
        _clear(mine, n)
        _clear(chances[r], n)
        _clear(onward[r], max(n - 1, 0))


# --- in log space -------------------------------------------------------------------------------------------


@njit(nogil=True)
def log_sum(v: Any) -> float:
    top = -np.inf
    for value in v:
        if value > top:
            top = value
    if top == -np.inf:
        return top
    total = 0.0
    for value in v:
        total += np.exp(value - top)
    return top + np.log(total)


@njit(nogil=True)
def log_forward(x: Any, moves: Any, table: int, stride: int, n: int, alpha: Any, terms: Any) -> float:
    """The logs of the forward weights of one row, without the shifts.

    Returns the log of their sum at the end.
    """
    k = x.shape[1]
    for t in range(n):
        for q in range(k):
            if t == 0:
                alpha[0, q] = x[0, q]
                continue
            for p in range(k):
                terms[p] = alpha[t - 1, p] + moves[table + t * stride, p, q]
            alpha[t, q] = x[t, q] + log_sum(terms)
    return log_sum(alpha[n - 1])


@compiled("3", "2", "3", "i", "i", "i1", "1", "1", "3", "3")
def log_rows(
    x: Any, shift: Any, moves: Any, each: int, stride: int, lengths: Any, scale: Any, log_z: Any, chances: Any,
    pairs: Any,
) -> None:  # fmt: skip
    """log Z, marginals, and ``pairs[w] += scale[r] × expected pairs`` of all rows, by logs:

    Any range, and slow.
    """
    rows, t_most, k = x.shape
    alpha, beta, terms = np.empty((t_most, k)), np.empty((t_most, k)), np.empty(k)
    for r in range(rows):
        n, table = lengths[r], r // each * (t_most if stride else 1)
        _clear(chances[r], 0)
        log_z[r] = 0.0
        if n == 0:
            continue
        total = log_forward(x[r], moves, table, stride, n, alpha, terms)
        for t in range(n):
            log_z[r] += shift[r, t]
        log_z[r] += total
        if total == -np.inf:
            continue
        _clear(beta, n - 1)
        for t in range(n - 1, 0, -1):
            w = table + t * stride
            for p in range(k):
                for q in range(k):
                    terms[q] = moves[w, p, q] + x[r, t, q] + beta[t, q]
                beta[t - 1, p] = log_sum(terms)
                for q in range(k):
                    pairs[w, p, q] += scale[r] * np.exp(alpha[t - 1, p] + terms[q] - total)
        for t in range(n):
            for q in range(k):
                chances[r, t, q] = np.exp(alpha[t, q] + beta[t, q] - total)
