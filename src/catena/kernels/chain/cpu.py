"""Compiled loops for sums over linear chains, row by row of a batch.

All loops share one notation. ``moves[w, p, q]`` is the log-weight of tag ``q`` after ``p``, less the greatest of its
column; ``matrix`` is its exponential. ``entry[w, q]`` is that greatest; the rows of ``start`` follow those of the
tables. ``x[q]`` is the log-weight of ``q`` at a position with its emission and its entry; ``weight`` is the exponential
of ``x`` less its greatest. ``each`` consecutive rows share their tables: one for all positions (stride 0), or one for
each (stride 1).

**Why this is exact.** Forward weights are kept as ``a``, which sums to 1, and a log-scale. Every sum over predecessors
must be above ``sum_least``, unless nothing can reach the tag at all. Then underflow takes less from it than the
rounding error, and all forward weights are right to the last digits, however far apart they lie. Backward weights are
scaled so that their product with ``a`` sums to 1 at every position, so what underflows there is a probability. A row
for which the range of the floats does not suffice is reported and repeated: in float64, and if need be in log space
(:mod:`catena.kernels.chain.cpu_logs`).

**Why it is fast.** Four rows go through a shared table together, so that each of its numbers is loaded once for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.chain.cpu_matvec import TOGETHER, four_times_matrix
from catena.kernels.common.jit import SUMS, jit, jit_function, jit_inline
from catena.kernels.common.vector_math import exp_less, max_entry

LIMITS = {
    np.dtype(np.float32): (1e-20, 1e-10, 1e18),
    np.dtype(np.float64): (1e-150, 1e-140, 1e150),
}
"""For each dtype: the least sum over predecessors, the least total of a position, the greatest backward weight."""

ONE_WAY, KEEP_FORWARD, BOTH_WAYS = 0, 1, 2
"""What ``forward_backward_rows`` leaves behind: log Z alone; the forward weights too; all that the gradient is made
of."""

FINE, IMPOSSIBLE, INEXACT = 0, 1, 2
_AHEAD = 16
"""How many positions of a row are weighed at once."""


@jit_inline()
def _greatest_of_columns(tables: Any, w: int, entry: Any) -> None:
    """The greatest of each column of a table; 0 where all are -inf."""
    k = tables.shape[1]
    for q in range(k):
        entry[q] = -np.inf
    for p in range(k):
        for q in range(k):
            entry[q] = tables[w, p, q] if tables[w, p, q] > entry[q] else entry[q]
    for q in range(k):
        entry[q] = entry[q] if entry[q] > -np.inf else 0


@jit("3", "2", "3", "3", "3")
def normalize_transitions(tables: Any, entry: Any, moves: Any, matrix: Any, matrix_t: Any) -> None:
    """``entry`` (0 where a column is all -inf), ``moves``, ``matrix`` and its transpose from the tables."""
    n, k, _ = tables.shape
    for w in range(n):
        _greatest_of_columns(tables, w, entry[w])
        for p in range(k):
            for q in range(k):
                moves[w, p, q] = tables[w, p, q] - entry[w, q]
            exp_less(moves[w, p], tables.dtype.type(0), matrix[w, p])
        for p in range(k):
            for q in range(k):
                matrix_t[w, q, p] = matrix[w, p, q]


@jit_inline()
def _has_counts(counts: Any, w: int) -> bool:
    for p in range(counts.shape[1]):
        for q in range(counts.shape[2]):
            if counts[w, p, q] != 0:
                return True
    return False


@jit_function()
def _weigh_pairs(tables: Any, times: Any, counts: Any) -> None:
    n, k, _ = tables.shape
    entry = np.empty(k, tables.dtype)
    move = np.empty(k, tables.dtype)
    matrix = np.empty(k, tables.dtype)
    for w in range(n):
        if not _has_counts(counts, w):  # a table that no row reads may hold nan
            continue
        _greatest_of_columns(tables, w, entry)
        for p in range(k):
            for q in range(k):
                move[q] = tables[w, p, q] - entry[q]
            exp_less(move, tables.dtype.type(0), matrix)
            for q in range(k):
                counts[w, p, q] *= matrix[q] * times


@jit("3", "f", "3")
def weigh_pairs(tables: Any, times: Any, counts: Any) -> None:
    """``counts`` times the matrices of the tables, as :func:`normalize_transitions` makes them, and ``times``."""
    _weigh_pairs(tables, times, counts)


@jit("3", "3", "3", "1", "3")
def count_pairs(tables: Any, a: Any, onward: Any, scale: Any, counts: Any) -> None:
    """Expected pairs of few rows, each row times its scale, added to ``counts`` of its table, which is 0 before."""
    rows, t_most, k = a.shape
    each = rows // len(tables)
    for r in range(rows):
        w = r // each
        for t in range(t_most):
            for p in range(k):
                x = a[r, t, p] * scale[r]
                for q in range(k):
                    counts[w, p, q] += x * onward[r, t, q]
    _weigh_pairs(tables, tables.dtype.type(1), counts)


@jit_function()
def _weigh(
    emissions: Any, r: int, t: int, entry: Any, table: int, stride: int, first: int, end: Any, edge: int, n: int,
    keep: int, i: int, x: Any, weight: Any, tops: Any, onward: Any,
) -> None:  # fmt: skip
    """``x[i]`` less its greatest, and ``weight[i]``, of the next positions of a row with ``n``.

    The greatest of each position, or 0 where all are -inf, goes to ``tops``. One exponential over many positions is
    faster than one for each.
    """
    k = emissions.shape[2]
    many = min(_AHEAD, n - t)
    for j in range(many):
        e = table + (t + j) * stride if t + j > 0 else first
        for q in range(k):
            x[i, j, q] = emissions[r, t + j, q] + entry[e, q]
        if t + j == n - 1:
            for q in range(k):
                x[i, j, q] += end[edge, q]
        top = max_entry(x, i, j)
        if not top > -np.inf:
            top = x.dtype.type(0)
        tops[i, j] = top
        for q in range(k):
            x[i, j, q] -= top
    exp_less(x[i].reshape(-1)[: many * k], x.dtype.type(0), weight[i].reshape(-1)[: many * k])
    if keep == BOTH_WAYS:
        for j in range(0 if t > 0 else 1, many):
            for q in range(k):
                onward[r, t + j - 1, q] = weight[i, j, q]


@jit_inline(SUMS)
def _settle(sums: Any, i: int, weight: Any, j: int, here: Any, sum_least: Any) -> Any:
    """The forward weights of a position from the sums over predecessors. Returns (their total, how many are small)."""
    total = weight[i, j, 0] * 0
    small = 0
    for q in range(here.shape[1]):
        small += (sums[i, q] < sum_least) & (weight[i, j, q] > 0)
        value = sums[i, q] * weight[i, j, q]
        here[i, q] = value
        total += value
    scale = 1 / total
    for q in range(here.shape[1]):
        here[i, q] *= scale
    return total, small


@jit_function()
def _small_sums_are_exact(
    sums: Any, i: int, weight: Any, j: int, emissions: Any, r: int, t: int, entry: Any, e: int, moves: Any, w: int,
    least: Any, barred: Any,
) -> bool:  # fmt: skip
    """Whether each small sum is small because nothing can reach the tag.

    ``barred[i, q]`` is moved on to this position: True where tag ``q`` is out of reach, and the last entry
    where any is.
    """
    k = sums.shape[1]
    before = np.empty(k, np.bool_)
    for p in range(k):
        forbidden = emissions[r, t - 1, p] == -np.inf or (t == 1 and entry[e, p] == -np.inf)
        before[p] = forbidden or (barred[i, k] and barred[i, p])
    for q in range(k + 1):
        barred[i, q] = False
    for q in range(k):
        if weight[i, j, q] > 0 and sums[i, q] < least:
            for p in range(k):
                if sums[i, q] > 0 or (moves[w, p, q] > -np.inf and not before[p]):
                    return False
            barred[i, q] = barred[i, k] = True
    return True


@jit_function()
def _vanished(x: Any, weight: Any, i: int, j: int) -> bool:
    """Whether the weight of an allowed tag underflowed."""
    for q in range(x.shape[2]):  # noqa: SIM110
        if x[i, j, q] > -np.inf and weight[i, j, q] == 0:
            return True
    return False


@jit_function()
def forward_rows(
    emissions: Any, entry: Any, end: Any, moves: Any, matrix: Any, rows: Any, table: int, stride: int,
    each_edge: int, lengths: Any, keep: int, log_z: Any, verdict: Any, a: Any, onward: Any, norms: Any,
    sum_least: Any, total_least: Any,
) -> None:  # fmt: skip
    """The forward pass of up to four rows that share their table. Weights of t > 0 are left in ``onward[:, t - 1]``."""
    k = emissions.shape[2]
    m = rows.shape[0]
    tables = moves.shape[0]
    here = np.zeros((TOGETHER, k), a.dtype)
    sums = np.ones((TOGETHER, k), a.dtype)
    x = np.empty((TOGETHER, _AHEAD, k), a.dtype)
    weight = np.empty((TOGETHER, _AHEAD, k), a.dtype)
    tops = np.empty((TOGETHER, _AHEAD), a.dtype)
    product = np.ones(TOGETHER)
    barred = np.zeros((TOGETHER, k + 1), np.bool_)
    longest = 0
    for i in range(m):
        longest = max(longest, lengths[rows[i]])
        log_z[rows[i]] = 0.0
        verdict[i] = FINE
    for t in range(longest):
        w = table + t * stride
        j = t % _AHEAD
        if t > 0:
            four_times_matrix(here, matrix, w, sums)
        for i in range(m):
            r = rows[i]
            if t >= lengths[r] or verdict[i] != FINE:
                continue
            first = tables + r // each_edge
            if j == 0:
                _weigh(
                    emissions, r, t, entry, table, stride, first, end, r // each_edge, lengths[r], keep, i, x, weight,
                    tops, onward,
                )  # fmt: skip
            total, small = _settle(sums, i, weight, j, here, sum_least)
            if (small > 0 or barred[i, k]) and not _small_sums_are_exact(
                sums, i, weight, j, emissions, r, t, entry, first, moves, w, sum_least, barred
            ):
                verdict[i] = INEXACT
            elif total < total_least:
                verdict[i] = INEXACT if total > 0 or _vanished(x, weight, i, j) else IMPOSSIBLE
            norms[i, t] = total
            log_z[r] += tops[i, j]
            product[i] *= total
            if not 1e-100 < product[i] < 1e100:  # a logarithm now and then, in place of one at each position
                log_z[r] += np.log(product[i])
                product[i] = 1
            if keep != ONE_WAY:
                for q in range(k):
                    a[r, t, q] = here[i, q]
    for i in range(m):
        log_z[rows[i]] = -np.inf if verdict[i] == IMPOSSIBLE else log_z[rows[i]] + np.log(product[i])


@jit_function(SUMS)
def backward_rows(
    matrix_t: Any, rows: Any, table: int, stride: int, lengths: Any, verdict: Any, a: Any, marginals: Any, onward: Any,
    norms: Any, most: Any,
) -> None:  # fmt: skip
    """The marginals of up to four rows. ``onward[t - 1, q]`` comes to hold what, times ``a[t - 1, p]`` and
    the matrix, is the marginal of the pair.
    """
    k = a.shape[2]
    m = rows.shape[0]
    here = np.zeros((TOGETHER, k), a.dtype)
    sums = np.ones((TOGETHER, k), a.dtype)
    longest = 0
    for i in range(m):
        n = lengths[rows[i]] if verdict[i] == FINE else 0
        longest = max(longest, n)
        for q in range(k):
            if n > 0:
                marginals[rows[i], n - 1, q] = a[rows[i], n - 1, q]
    for t in range(longest - 1, 0, -1):
        for i in range(m):
            r = rows[i]
            if t >= lengths[r] or verdict[i] != FINE:
                continue
            scale = 1 / norms[i, t]
            for q in range(k):
                after = sums[i, q] if t < lengths[r] - 1 else 1
                onward[r, t - 1, q] *= after * scale
                here[i, q] = onward[r, t - 1, q]
        four_times_matrix(here, matrix_t, table + t * stride, sums)
        for i in range(m):
            r = rows[i]
            if t >= lengths[r] or verdict[i] != FINE:
                continue
            large = 0
            for p in range(k):
                large += sums[i, p] > most
                marginals[r, t - 1, p] = a[r, t - 1, p] * sums[i, p]
            if large > 0:
                verdict[i] = INEXACT


@jit_inline()
def clear_rows(rows: Any, first: int) -> None:
    """Set rows to 0 from the given one on."""
    for t in range(first, rows.shape[0]):
        for q in range(rows.shape[1]):
            rows[t, q] = 0


@jit(
    "3", "2", "2", "3", "3", "3", "i1", "i", "i", "i", "i1", "i", "i", "i", "d1", "b1", "3", "3", "3",
    "f", "f", "f",
)  # fmt: skip
def forward_backward_rows(
    emissions: Any, entry: Any, end: Any, moves: Any, matrix: Any, matrix_t: Any, order: Any, each: int,
    stride: int, each_edge: int, lengths: Any, low: int, high: int, keep: int, log_z: Any, exact: Any, a: Any,
    marginals: Any, onward: Any, sum_least: Any, total_least: Any, most: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``order[low:high]``, whether it is exact, and what ``keep`` selects.

    ``order`` keeps rows of one table together. What is kept is 0 beyond a length and where a row is not
    exact.
    """
    t_most = emissions.shape[1]
    norms = np.empty((TOGETHER, t_most), a.dtype)
    verdict = np.empty(TOGETHER, np.int64)
    first = low
    while first < high:
        table = order[first] // each
        m = 1
        while stride == 0 and m < TOGETHER and first + m < high and order[first + m] // each == table:
            m += 1
        rows = order[first : first + m]
        first += m
        table *= t_most if stride else 1
        forward_rows(
            emissions, entry, end, moves, matrix, rows, table, stride, each_edge, lengths, keep, log_z,
            verdict, a, onward, norms, sum_least, total_least,
        )  # fmt: skip
        if keep == BOTH_WAYS:
            backward_rows(matrix_t, rows, table, stride, lengths, verdict, a, marginals, onward, norms, most)
        for i in range(m):
            r = rows[i]
            exact[r] = verdict[i] != INEXACT
            n = lengths[r] if verdict[i] == FINE else 0
            if keep != ONE_WAY:
                clear_rows(a[r], n)
            if keep == BOTH_WAYS:
                clear_rows(marginals[r], n)
                clear_rows(onward[r], max(n - 1, 0))


@jit("3", "1", "3", "i1", "i", "2", "2")
def scale_marginals(
    marginals: Any, scale: Any, by_emissions: Any, lengths: Any, each_edge: int, by_start: Any, by_end: Any
) -> None:
    """The gradients by emissions, starts and ends: marginals times the scale of their row, the last two added up."""
    rows, t_most, k = marginals.shape
    for r in range(rows):
        n = lengths[r]
        edge = r // each_edge
        for t in range(t_most):
            for q in range(k):
                by_emissions[r, t, q] = marginals[r, t, q] * scale[r]
        for q in range(k if n > 0 else 0):
            by_start[edge, q] += by_emissions[r, 0, q]
            by_end[edge, q] += by_emissions[r, n - 1, q]
