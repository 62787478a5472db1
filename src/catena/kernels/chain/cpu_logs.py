"""Compiled loops for sums over linear chains in log space, for any range of scores.

They are slow, and repeat the few rows for which :mod:`catena.kernels.chain.cpu` reports that floats did not suffice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.chain.cpu import clear_rows
from catena.kernels.common.jit import jit, jit_function
from catena.kernels.common.vector_math import log_sum


@jit_function()
def _log_forward(
    emissions: Any, start: Any, end: Any, tables: Any, table: int, stride: int, n: int, alpha: Any, terms: Any,
    scratch: Any,
) -> float:  # fmt: skip
    """The logs of the forward weights of one row. Returns log Z."""
    k = emissions.shape[1]
    for t in range(n):
        for q in range(k):
            alpha[t, q] = emissions[t, q] + (start[q] if t == 0 else 0.0) + (end[q] if t == n - 1 else 0.0)
            if t > 0:
                for p in range(k):
                    terms[p] = alpha[t - 1, p] + tables[table + t * stride, p, q]
                alpha[t, q] += log_sum(terms, scratch)
    return log_sum(alpha[n - 1], scratch)


@jit("3", "2", "2", "3", "i", "i", "i", "i1", "1", "1", "3", "3", "3")
def log_rows(
    emissions: Any, start: Any, end: Any, tables: Any, each: int, stride: int, each_edge: int, lengths: Any, scale: Any,
    log_z: Any, alpha: Any, marginals: Any, pairs: Any,
) -> None:  # fmt: skip
    """log Z, logs of forward weights, marginals, and ``pairs[w] += scale[r] × expected pairs``: any range, and slow."""
    rows, t_most, k = emissions.shape
    beta = np.empty((t_most, k))
    terms = np.empty(k)
    scratch = np.empty(k)
    for r in range(rows):
        n = lengths[r]
        table = r // each * (t_most if stride else 1)
        edge = r // each_edge
        clear_rows(marginals[r], 0)
        log_z[r] = 0.0
        if n == 0:
            continue
        log_z[r] = _log_forward(
            emissions[r], start[edge], end[edge], tables, table, stride, n, alpha[r], terms, scratch
        )
        if log_z[r] == -np.inf:
            continue
        clear_rows(beta, n - 1)
        for t in range(n - 1, 0, -1):
            w = table + t * stride
            for p in range(k):
                for q in range(k):
                    after = end[edge, q] if t == n - 1 else 0.0
                    terms[q] = tables[w, p, q] + (emissions[r, t, q] + after) + beta[t, q]
                beta[t - 1, p] = log_sum(terms, scratch)
                for q in range(k):
                    pairs[w, p, q] += scale[r] * np.exp(alpha[r, t - 1, p] + terms[q] - log_z[r])
        for t in range(n):
            for q in range(k):
                marginals[r, t, q] = np.exp(alpha[r, t, q] + beta[t, q] - log_z[r])
