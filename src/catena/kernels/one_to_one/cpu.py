"""The compiled loops that sum over one-to-one alignments. Knows numpy alone; ``alignment_one_to_one`` knows torch.

Points, rows and the backward pass are as in :mod:`catena.kernels.alignment.cpu`. But a point has two numbers:
``AHEAD``, for what has paired the last source position (or has none) and gone on over left over target positions, and
``HERE``, which adds what leaves that source position over. So target positions between two pairs are always gone over
before source positions are, and each set of pairs is counted once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.alignment.cpu import FUSED, ONE, TOGETHER, U, add_products, make_normal
from catena.kernels.alignment.floats import NOWHERE, exp_mantissa, exp_to_exponent, power_of_two, scaled_log
from catena.kernels.common.jit import jit, jit_function

ABOVE, HERE, PAIR, PUT, AHEAD = 0, 2, 4, 6, 8
"""Rows of the scratch; an ``e`` below each ``m``."""

BY_PAIR, BY_PUT, BY_AHEAD, BY_DROP = 10, 11, 12, 13
"""The terms of the sums at each point."""

CHANCE, BELOW, LEFT = 0, 1, 2
"""On the way back: the probabilities of points ahead, what points have from the row below, and sums over rows."""

ROWS = 14
PAIRED, PUT_SHARE, AHEAD_SHARE, DROPPED = 0, 1, 2, 3
"""Shares: of the two ways to what is ahead, and of the two ways to a point."""

WAYS = 4


@jit_function(FUSED)
def _sum_ahead(w: Any, low: int, high: int, first: bool) -> None:
    """What is ahead at the points ``low`` to ``high``, not made normal."""
    for j in range(U(low), U(high)):
        w[AHEAD + 1, j] = w[ABOVE + 1, j - ONE] + w[PAIR + 1, j]
    if first:
        w[AHEAD + 1, low:high] = 2 * NOWHERE
    e = w[AHEAD + 1, low - 1]
    for j in range(U(low), U(high)):
        e += w[PUT + 1, j]
        e = e if e > w[AHEAD + 1, j] else w[AHEAD + 1, j]
        w[AHEAD + 1, j] = e
    add_products(w, low, high, ABOVE, 1, PAIR, AHEAD, BY_PAIR)
    if first:
        w[BY_PAIR, low:high] = 0.0
    for j in range(U(low), U(high)):
        w[BY_PUT, j] = w[PUT, j] * power_of_two(w[AHEAD + 1, j - ONE] + w[PUT + 1, j] - w[AHEAD + 1, j])
    m = w[AHEAD, low - 1]
    for j in range(U(low), U(high)):
        m = w[BY_PAIR, j] + w[BY_PUT, j] * m
        w[AHEAD, j] = m


@jit_function(FUSED)
def _keep_ahead(w: Any, low: int, high: int, i: int, shares: Any) -> None:
    for j in range(U(low), U(high)):
        m = w[AHEAD, j]
        whole = 1 / m if m > 0 else 0.0
        shares[PAIRED, i, j] = w[BY_PAIR, j] * whole
        shares[PUT_SHARE, i, j] = w[BY_PUT, j] * w[AHEAD, j - ONE] * whole


@jit_function(FUSED)
def _sum_points(w: Any, n: int, m: float, e: float, i: int, keep: bool, shares: Any) -> None:
    """All points of a row, from what is ahead there, and from those above if the source position is left: m × 2^e."""
    for j in range(n):
        a = w[AHEAD + 1, j]
        b = w[ABOVE + 1, j] + e
        w[HERE + 1, j] = a if a > b else b
    for j in range(n):
        w[BY_AHEAD, j] = w[AHEAD, j] * power_of_two(w[AHEAD + 1, j] - w[HERE + 1, j])
    for j in range(n):
        w[BY_DROP, j] = w[ABOVE, j] * m * power_of_two(w[ABOVE + 1, j] + e - w[HERE + 1, j])
    for j in range(n):
        w[HERE, j] = w[BY_AHEAD, j] + w[BY_DROP, j]
    if keep:
        for j in range(n):
            whole = 1 / w[HERE, j] if w[HERE, j] > 0 else 0.0
            shares[AHEAD_SHARE, i, j] = w[BY_AHEAD, j] * whole
            shares[DROPPED, i, j] = w[BY_DROP, j] * whole
    make_normal(w, 0, n, HERE)


@jit_function(FUSED)
def _weigh(scores: Any, r: int, n: int, w: Any, row: int) -> None:
    """The exponentials of ``n`` scores into the points one place to the right."""
    for j in range(n):
        x = np.float64(scores[r, j])
        e = exp_to_exponent(x)
        w[row + 1, j + 1] = e
        w[row, j + 1] = exp_mantissa(x, e)


@jit_function(FUSED)
def forward(
    scores: Any, source_gaps: Any, target_gaps: Any, r: int, n_source: int, n_target: int, keep: bool, w: Any,
    shares: Any,
) -> float:  # fmt: skip
    """log Z of one row; with ``keep`` also the shares at every point."""
    _weigh(target_gaps, r, n_target, w, PUT)
    for i in range(n_source + 1):
        for j in range(n_target + 1):
            w[ABOVE, j] = w[HERE, j] if i > 0 else 0.0
            w[ABOVE + 1, j] = w[HERE + 1, j] if i > 0 else NOWHERE
        w[AHEAD, 0], w[AHEAD + 1, 0] = (0.0, NOWHERE) if i > 0 else (1.0, 0.0)
        if i > 0:
            _weigh(scores[r], i - 1, n_target, w, PAIR)
        if keep:
            shares[PAIRED, i, 0] = shares[PUT_SHARE, i, 0] = 0.0
        for low in range(1, n_target + 1, TOGETHER):
            high = min(low + TOGETHER, n_target + 1)
            _sum_ahead(w, low, high, i == 0)
            if keep:
                _keep_ahead(w, low, high, i, shares)
            make_normal(w, low, high, AHEAD)
        x = np.float64(source_gaps[r, i - 1]) if i > 0 else -np.inf
        e = exp_to_exponent(x)
        _sum_points(w, n_target + 1, exp_mantissa(x, e), e, i, keep, shares)
    return scaled_log(w[HERE, n_target], w[HERE + 1, n_target])


@jit_function(FUSED)
def _backward(
    r: int, n_source: int, n_target: int, w: Any, shares: Any, by_scores: Any, by_source: Any, by_target: Any
) -> None:  # fmt: skip
    """The probability of every pair, and of every position to be left over, from the shares."""
    w[BELOW : LEFT + 1, : n_target + 1] = 0.0
    w[BELOW, n_target] = 1.0
    for i in range(n_source, -1, -1):
        p = 0.0
        for j in range(n_target, 0, -1):
            p += w[BELOW, j] * shares[AHEAD_SHARE, i, j]
            w[CHANCE, j] = p
            p *= shares[PUT_SHARE, i, j]
        for j in range(n_target):
            w[LEFT, j] += w[CHANCE, j + 1] * shares[PUT_SHARE, i, j + 1]
        if i == 0:
            break
        left = 0.0
        for j in range(n_target + 1):
            w[BELOW, j] *= shares[DROPPED, i, j]
            left += w[BELOW, j]
        by_source[r, i - 1] = left
        for j in range(n_target):
            given = w[CHANCE, j + 1] * shares[PAIRED, i, j + 1]
            by_scores[r, i - 1, j] = given
            w[BELOW, j] += given
    for j in range(n_target):
        by_target[r, j] = w[LEFT, j]


@jit("3", "2", "2", "i1", "i1", "i", "i", "b", "d1", "3", "2", "2", fastmath=FUSED)
def sum_rows(
    scores: Any, source_gaps: Any, target_gaps: Any, n_source: Any, n_target: Any, low: int, high: int,
    both_ways: bool, log_z: Any, by_scores: Any, by_source: Any, by_target: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high``; with ``both_ways`` also the marginals, which come as zeros."""
    s, t = scores.shape[1:]
    w = np.zeros((ROWS, t + 1))
    shares = np.empty((WAYS, s + 1, t + 1) if both_ways else (WAYS, 1, 1))
    for r in range(low, high):
        n = n_source[r]
        m = n_target[r]
        log_z[r] = forward(scores, source_gaps, target_gaps, r, n, m, both_ways, w, shares)
        if both_ways and log_z[r] != -np.inf:
            _backward(r, n, m, w, shares, by_scores, by_source, by_target)
