"""The compiled loops that sum over span trees, row by row of a batch. Knows numpy arrays alone; ``tree`` knows torch.

Charts are kept by width: ``[w, i]`` is the span of ``w + 1`` words that begins at ``i``. So the parts of all spans
of one width, split after ``u + 1`` words, lie one after the other (``[u, i]`` and ``[w - 1 - u, i + u + 1]``), and
the innermost loop runs over the spans. All numbers of the chart are wide (see :mod:`catena.kernels.tree_numbers`).

The way down needs no outside weights. What a span's probability gives to its two parts is the share that their product
had in the sum on the way up, so all that is added there are probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.compiled import compiled
from catena.kernels.tree_numbers import NOWHERE, exponent, from_log, mantissa, power_of_two, to_log
from catena.kernels.vector_math import exp_less


@njit(nogil=True)
def sum_labels(scores: Any, n: int, own: Any, own_e: Any, shares: Any, keep: bool) -> None:
    """The summed weight of each span's labels into ``own``; with ``keep`` the share of each into ``shares``."""
    k = scores.shape[2]
    weights = np.empty(k)
    for i in range(n):
        for j in range(i, n):
            top = scores[i, j, 0]
            for q in range(1, k):
                top = scores[i, j, q] if scores[i, j, q] > top else top
            mass = 1.0
            if k > 1:
                exp_less(scores[i, j], top if top > -np.inf else 0.0, weights)
                mass = 0.0
                for q in range(k):
                    mass += weights[q]
            own[j - i, i], own_e[j - i, i] = from_log(top, mass)
            if keep:
                for q in range(k):
                    shares[i, j, q] = (weights[q] / mass if k > 1 else 1.0) if top > -np.inf else 0.0


@njit(nogil=True)
def _sum_splits(w: int, spans: int, beta: Any, beta_e: Any, inner: Any, inner_e: Any) -> None:
    """``inner[w]``: the products of the two parts, summed over splits; ``inner_e[w]``: the greatest exponent."""
    most, total = inner_e[w], inner[w]
    for i in range(spans):
        most[i] = 2 * NOWHERE
        total[i] = 0.0
    for u in range(w):
        left, right = beta_e[u], beta_e[w - 1 - u, u + 1 :]
        for i in range(spans):
            e = left[i] + right[i]
            most[i] = e if e > most[i] else most[i]
    for u in range(w):
        left, right = beta[u], beta[w - 1 - u, u + 1 :]
        left_e, right_e = beta_e[u], beta_e[w - 1 - u, u + 1 :]
        for i in range(spans):
            total[i] += left[i] * right[i] * power_of_two(left_e[i] + right_e[i] - most[i])


@njit(nogil=True)
def inside(n: int, own: Any, own_e: Any, beta: Any, beta_e: Any, inner: Any, inner_e: Any) -> float:
    """``beta``: all trees over each span. Returns log Z."""
    if n == 0:
        return 0.0
    for i in range(n):
        beta[0, i], beta_e[0, i] = own[0, i], own_e[0, i]
    for w in range(1, n):
        _sum_splits(w, n - w, beta, beta_e, inner, inner_e)
        for i in range(n - w):
            value = inner[w, i] * own[w, i]
            beta_e[w, i] = exponent(value, inner_e[w, i] + own_e[w, i])
            beta[w, i] = mantissa(value)
    return to_log(beta[n - 1, 0], beta_e[n - 1, 0])


@njit(nogil=True)
def _outside(n: int, beta: Any, beta_e: Any, inner: Any, inner_e: Any, chances: Any, given: Any) -> None:
    """The probability of each span into ``chances``, which holds 0 and, for the whole sentence, 1."""
    for w in range(n - 1, 0, -1):
        spans = n - w
        for i in range(spans):
            inner[w, i] = chances[w, i] / inner[w, i] if chances[w, i] > 0 else 0.0
        for u in range(w):
            left, right = beta[u], beta[w - 1 - u, u + 1 :]
            left_e, right_e = beta_e[u], beta_e[w - 1 - u, u + 1 :]
            for i in range(spans):
                share = left[i] * right[i] * power_of_two(left_e[i] + right_e[i] - inner_e[w, i])
                given[i] = share * inner[w, i]
            to_left, to_right = chances[u], chances[w - 1 - u, u + 1 :]
            for i in range(spans):
                to_left[i] += given[i]
            for i in range(spans):
                to_right[i] += given[i]


@compiled("d4", "i1", "i", "i", "b", "d1", "d4")
def sum_rows(scores: Any, lengths: Any, low: int, high: int, both_ways: bool, log_z: Any, marginals: Any) -> None:
    """log Z of the rows ``low`` to ``high``; with ``both_ways`` also the marginals, which come as zeros."""
    t = scores.shape[1]
    own, own_e = np.empty((t, t)), np.empty((t, t), np.int64)
    beta, beta_e = np.empty((t, t)), np.empty((t, t), np.int64)
    inner, inner_e = np.empty((t, t)), np.empty((t, t), np.int64)
    chances, given = np.empty((t, t)), np.empty(t)
    for r in range(low, high):
        n = lengths[r]
        sum_labels(scores[r], n, own, own_e, marginals[r if both_ways else 0], both_ways)
        log_z[r] = inside(n, own, own_e, beta, beta_e, inner, inner_e)
        if not both_ways:
            continue
        for w in range(n):
            for i in range(n):
                chances[w, i] = 0.0
        if n > 0 and log_z[r] > -np.inf:
            chances[n - 1, 0] = 1.0
            _outside(n, beta, beta_e, inner, inner_e, chances, given)
        for i in range(n):
            for j in range(i, n):
                for q in range(scores.shape[3]):
                    marginals[r, i, j, q] *= chances[j - i, i]
