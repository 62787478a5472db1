"""The compiled loops of segmentations, row by row of a batch. Knows numpy arrays alone; ``semimarkov`` knows torch.

All sums are log-sum-exps in float64, whatever the dtype of the scores, so no range is too wide and there is nothing to
rescue. They run over columns: many logs of sums that are taken at once, side by side in a vector unit.

``alpha[j, y]`` is the log-weight of all segmentations of the first ``j`` positions whose last label is ``y``;
``entry[i, y]`` that of what comes before a segment labeled ``y`` which begins at ``i``; ``rest[i, y]`` that of such a
segment and what follows it; ``beta[j, y]`` that of what follows a segment labeled ``y`` which ends at ``j``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.vector_math import exp_less


@jit_function()
def log_sum_columns(terms: Any, n: int, room: Any, result: Any, r: int) -> None:
    """result[r, q] = log Σ_p exp(terms[p, q]) over the first ``n`` rows, which are overwritten, as is the scratch."""
    k = terms.shape[1]
    top = room[0]
    weights = room[1]
    for q in range(k):
        top[q] = -np.inf
    for p in range(n):
        for q in range(k):
            top[q] = terms[p, q] if terms[p, q] > top[q] else top[q]
    for q in range(k):
        top[q] = top[q] if top[q] > -np.inf else 0.0
        result[r, q] = 0.0
    for p in range(n):
        for q in range(k):
            terms[p, q] -= top[q]
        exp_less(terms[p], 0.0, weights)  # another array: in its own place it would go number by number
        for q in range(k):
            result[r, q] += weights[q]
    for q in range(k):
        result[r, q] = top[q] + np.log(result[r, q]) if result[r, q] > 0 else result[r, q] * 0 - np.inf


@jit_function()
def _moved(alpha: Any, j: int, table: Any, terms: Any, room: Any, entry: Any) -> None:
    """entry[j, y] = log Σ_x exp(alpha[j, x] + table[x, y])."""
    k = table.shape[0]
    for x in range(k):
        for y in range(k):
            terms[x, y] = alpha[j, x] + table[x, y]
    log_sum_columns(terms, k, room, entry, j)


@jit_function()
def forward(
    segments: Any, table: Any, start: Any, end: Any, n: int, alpha: Any, entry: Any, terms: Any, room: Any
) -> float:
    """``alpha[1:n + 1]`` and ``entry[:n]`` of one row. Returns log Z."""
    m, k = segments.shape[1:]
    for y in range(k):
        entry[0, y] = start[y]
    for j in range(1, n + 1):
        longest = min(m, j)
        for size in range(1, longest + 1):
            for y in range(k):
                terms[size - 1, y] = entry[j - size, y] + segments[j - size, size - 1, y]
        log_sum_columns(terms, longest, room, alpha, j)
        if j < n:
            _moved(alpha, j, table, terms, room, entry)
    total = -np.inf
    for y in range(k):
        total = np.logaddexp(total, alpha[n, y] + end[y])
    return total


@jit_function()
def _backward(segments: Any, table_t: Any, end: Any, n: int, beta: Any, rest: Any, terms: Any, room: Any) -> None:
    """``beta[1:n + 1]`` and ``rest[:n]`` of one row."""
    m, k = segments.shape[1:]
    for y in range(k):
        beta[n, y] = end[y]
    for i in range(n - 1, -1, -1):
        longest = min(m, n - i)
        for size in range(1, longest + 1):
            for y in range(k):
                terms[size - 1, y] = segments[i, size - 1, y] + beta[i + size, y]
        log_sum_columns(terms, longest, room, rest, i)
        if i > 0:
            _moved(rest, i, table_t, terms, room, beta)


@jit("4", "d3", "d3", "d2", "d2", "i1", "i", "i", "i", "b", "d1", "4", "d3", "d3")
def sum_rows(
    segments: Any, tables: Any, tables_t: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int,
    both_ways: bool, log_z: Any, marginals: Any, alpha: Any, rest: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high``; with ``both_ways`` also marginals, ``alpha`` and ``rest``.

    One way only, ``alpha`` and ``rest`` are scratch, one row for each call.
    """
    _, t, m, k = segments.shape
    terms = np.empty((max(m, k), k))
    room = np.empty((2, k))
    entry = np.empty((t + 1, k))
    beta = np.empty((t + 1, k))
    for r in range(low, high):
        n = lengths[r]
        g = r // each
        mine = r if both_ways else 0
        log_z[r] = 0.0
        if n > 0:
            log_z[r] = forward(segments[r], tables[g], start[g], end[g], n, alpha[mine], entry, terms, room)
        if not both_ways:
            continue
        possible = n > 0 and log_z[r] > -np.inf
        if possible:
            _backward(segments[r], tables_t[g], end[g], n, beta, rest[r], terms, room)
        for i in range(t):
            for size in range(1, m + 1):
                inside = possible and i + size <= n
                for y in range(k):
                    terms[0, y] = -np.inf
                    if inside:
                        terms[0, y] = entry[i, y] + segments[r, i, size - 1, y] + beta[i + size, y]
                if inside:
                    exp_less(terms[0], log_z[r], room[1])
                for y in range(k):
                    marginals[r, i, size - 1, y] = room[1, y] if inside else 0.0


@jit("d1", "d1", "d3", "d2", "d2", "i1", "i", "d3", "d3", "d3", "d2", "d2")
def expected_neighbors(
    scale: Any, log_z: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, alpha: Any, rest: Any,
    by_tables: Any, by_start: Any, by_end: Any,
) -> None:  # fmt: skip
    """Add ``scale[r]`` times the expected transitions, starts and ends of each row."""
    k = tables.shape[1]
    terms = np.empty(k)
    weights = np.empty(k)
    for r in range(scale.shape[0]):
        n = lengths[r]
        g = r // each
        if n == 0 or log_z[r] == -np.inf:
            continue
        for i in range(1, n):
            for x in range(k):
                for y in range(k):
                    terms[y] = alpha[r, i, x] + tables[g, x, y] + rest[r, i, y]
                exp_less(terms, log_z[r], weights)
                for y in range(k):
                    by_tables[g, x, y] += scale[r] * weights[y]
        for y in range(k):
            by_start[g, y] += scale[r] * np.exp(start[g, y] + rest[r, 0, y] - log_z[r])
            by_end[g, y] += scale[r] * np.exp(alpha[r, n, y] + end[g, y] - log_z[r])
