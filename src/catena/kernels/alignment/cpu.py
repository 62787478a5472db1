"""The compiled loops that sum over alignments, row by row of a batch. Knows numpy alone; ``alignment`` knows torch.

The grid of points is walked by source positions ``i``, and within one by target positions ``j``. A point is come to
from above left (a substitution), from the left (an insertion) or from above (a deletion). The first and the last of the
three are done for all of a row at once; what comes from the left must wait for its neighbor, but that is one product
and one sum. All numbers are as in :mod:`catena.kernels.alignment.floats`, so that no range of scores is too wide.

The way back needs no weights of what lies behind. The share that each of the three ways had in the sum at a point is
kept, and what the probability of a point gives to the points before it are these shares of it: all that is added are
probabilities.

Numbers of one row of the grid lie in a row of the scratch ``w``, the ``e`` in the row below the ``m``. (One array, not
a dozen: the compiler takes seconds, not half a minute, and sees what it can make vector instructions of.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.alignment.floats import (
    NOWHERE,
    exp_mantissa,
    exp_to_exponent,
    get_exponent,
    mantissa,
    power_of_two,
    scaled_log,
)
from catena.kernels.common.jit import jit, jit_function, jit_inline

ABOVE, HERE, PAIR, PUT, DROP = 0, 2, 4, 6, 8
"""Rows of the scratch: the points of two rows of the grid, and the weights of the operations into each point."""

BY_PAIR, BY_PUT, BY_DROP = 10, 11, 12
"""The terms of the sum at each point."""

CHANCE, BELOW, INSERTED = 0, 1, 2
"""On the way back: the probabilities of points, what they have from the row below, and sums over rows."""

ROWS = 13
TOGETHER = 256
"""Number of points of a row that are summed before their numbers are normalized: a product of as many factors between
0.7 and 1.42 is far from the limits of a float."""

FUSED = frozenset({"contract"})
U, ONE = np.uint64, np.uint64(1)
"""Loops that begin at some place count in unsigned numbers: the compiler cannot know that a signed one is not negative,
which would count from the end, and would make no vector instructions."""


@jit_function(FUSED)
def weigh(scores: Any, r: int, i: int, n: int, further: int, w: Any, row: int) -> None:
    """The exponentials of ``n`` scores into the points ``further`` places to the right. One score may stand for all."""
    if scores.shape[2] == 1:
        x = np.float64(scores[r, i, 0])
        e = exp_to_exponent(x)
        m = exp_mantissa(x, e)
        for j in range(further, n + further):
            w[row, j] = m
            w[row + 1, j] = e
        return
    for j in range(n):
        x = np.float64(scores[r, i, j])
        e = exp_to_exponent(x)
        w[row + 1, j + further] = e
        w[row, j + further] = exp_mantissa(x, e)


@jit_inline(FUSED)
def add_products(w: Any, low: int, high: int, before: int, shift: int, weight: int, here: int, result: int) -> None:
    """``result[j]``: the number ``shift`` places to the left in one row times a weight, by the exponents of another."""
    for j in range(U(low), U(high)):
        e = w[before + 1, j - U(shift)] + w[weight + 1, j] - w[here + 1, j]
        w[result, j] = w[before, j - U(shift)] * w[weight, j] * power_of_two(e)


@jit_function(FUSED)
def _sum_points(w: Any, low: int, high: int, first: bool) -> None:
    """The points ``low`` to ``high`` of a row from those above and the one to the left, not made normal."""
    for j in range(U(low), U(high)):
        a = w[ABOVE + 1, j - ONE] + w[PAIR + 1, j]
        b = w[ABOVE + 1, j] + w[DROP + 1, j]
        w[HERE + 1, j] = a if a > b else b
    if first:
        w[HERE + 1, low:high] = 2 * NOWHERE
    e = w[HERE + 1, low - 1]
    for j in range(U(low), U(high)):
        e += w[PUT + 1, j]
        e = e if e > w[HERE + 1, j] else w[HERE + 1, j]
        w[HERE + 1, j] = e
    add_products(w, low, high, ABOVE, 1, PAIR, HERE, BY_PAIR)
    add_products(w, low, high, ABOVE, 0, DROP, HERE, BY_DROP)
    for j in range(U(low), U(high)):
        w[BY_PUT, j] = w[PUT, j] * power_of_two(w[HERE + 1, j - ONE] + w[PUT + 1, j] - w[HERE + 1, j])
    if first:
        w[BY_PAIR, low:high] = 0.0
        w[BY_DROP, low:high] = 0.0
    m = w[HERE, low - 1]
    for j in range(U(low), U(high)):
        m = (w[BY_PAIR, j] + w[BY_DROP, j]) + w[BY_PUT, j] * m
        w[HERE, j] = m


@jit_function(FUSED)
def _keep_shares(w: Any, low: int, high: int, i: int, shares: Any) -> None:
    """``shares[o, i, j]``: what came to a point by operation ``o``, of all that came to it."""
    for j in range(U(low), U(high)):
        m = w[HERE, j]
        whole = 1 / m if m > 0 else 0.0
        shares[0, i, j] = w[BY_PAIR, j] * whole
        shares[1, i, j] = w[BY_PUT, j] * w[HERE, j - ONE] * whole
        shares[2, i, j] = w[BY_DROP, j] * whole


@jit_function(FUSED)
def make_normal(w: Any, low: int, high: int, row: int) -> None:
    """Mantissas between 1/2 and 1."""
    for j in range(U(low), U(high)):
        w[row + 1, j] = get_exponent(w[row, j], w[row + 1, j])
        w[row, j] = mantissa(w[row, j])


@jit_function(FUSED)
def forward(
    substitutions: Any, insertions: Any, deletions: Any, r: int, n_source: int, n_target: int, keep: bool, w: Any,
    shares: Any,
) -> float:  # fmt: skip
    """log Z of one row; with ``keep`` also the shares at every point."""
    for i in range(n_source + 1):
        for j in range(n_target + 1):
            w[ABOVE, j] = w[HERE, j]
            w[ABOVE + 1, j] = w[HERE + 1, j]
        if i == 0 or insertions.shape[1] > 1:
            weigh(insertions, r, i, n_target, 1, w, PUT)
        if i == 0:
            w[HERE, 0], w[HERE + 1, 0] = 1.0, 0.0
        else:
            weigh(substitutions, r, i - 1, n_target, 1, w, PAIR)
            weigh(deletions, r, i - 1, n_target + 1, 0, w, DROP)
            w[HERE, 0], w[HERE + 1, 0] = w[ABOVE, 0] * w[DROP, 0], w[ABOVE + 1, 0] + w[DROP + 1, 0]
        make_normal(w, 0, 1, HERE)
        if keep:
            shares[0, i, 0] = shares[1, i, 0] = 0.0
            shares[2, i, 0] = 1.0 if i > 0 and w[HERE, 0] > 0 else 0.0
        for low in range(1, n_target + 1, TOGETHER):
            high = min(low + TOGETHER, n_target + 1)
            _sum_points(w, low, high, i == 0)
            if keep:
                _keep_shares(w, low, high, i, shares)
            make_normal(w, low, high, HERE)
    return scaled_log(w[HERE, n_target], w[HERE + 1, n_target])


@jit_function(FUSED)
def _backward(
    r: int, n_source: int, n_target: int, w: Any, shares: Any, by_substitutions: Any, by_insertions: Any,
    by_deletions: Any,
) -> None:  # fmt: skip
    """The probability of every operation of one row, from the shares."""
    one_row = by_insertions.shape[1] == 1
    one_column = by_deletions.shape[2] == 1
    w[BELOW : INSERTED + 1, : n_target + 1] = 0.0
    w[BELOW, n_target] = 1.0
    for i in range(n_source, -1, -1):
        p = 0.0
        for j in range(n_target, 0, -1):
            p += w[BELOW, j]
            w[CHANCE, j] = p
            p *= shares[1, i, j]
        w[CHANCE, 0] = p + w[BELOW, 0]
        if one_row:
            for j in range(1, n_target + 1):
                w[INSERTED, j] += w[CHANCE, j] * shares[1, i, j]
        else:
            for j in range(1, n_target + 1):
                by_insertions[r, i, j - 1] = w[CHANCE, j] * shares[1, i, j]
        if i == 0:
            break
        for j in range(1, n_target + 1):
            by_substitutions[r, i - 1, j - 1] = w[BELOW, j - 1] = w[CHANCE, j] * shares[0, i, j]
        w[BELOW, n_target] = 0.0
        for j in range(n_target + 1):
            w[CHANCE, j] *= shares[2, i, j]
            w[BELOW, j] += w[CHANCE, j]
        if one_column:
            deleted = 0.0
            for j in range(n_target + 1):
                deleted += w[CHANCE, j]
            by_deletions[r, i - 1, 0] = deleted
        else:
            for j in range(n_target + 1):
                by_deletions[r, i - 1, j] = w[CHANCE, j]
    if one_row:
        for j in range(n_target):
            by_insertions[r, 0, j] = w[INSERTED, j + 1]


@jit("3", "3", "3", "i1", "i1", "i", "i", "b", "d1", "3", "3", "3", fastmath=FUSED)
def sum_rows(
    substitutions: Any, insertions: Any, deletions: Any, n_source: Any, n_target: Any, low: int, high: int,
    both_ways: bool, log_z: Any, by_substitutions: Any, by_insertions: Any, by_deletions: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high``; with ``both_ways`` also the marginals, which come as zeros.

    Insertions may have one row for all source positions, and deletions one column for all target positions.
    """
    s, t = substitutions.shape[1:]
    w = np.zeros((ROWS, t + 1))
    shares = np.empty((3, s + 1, t + 1) if both_ways else (3, 1, 1))
    for r in range(low, high):
        n = n_source[r]
        m = n_target[r]
        log_z[r] = forward(substitutions, insertions, deletions, r, n, m, both_ways, w, shares)
        if both_ways and log_z[r] != -np.inf:
            _backward(r, n, m, w, shares, by_substitutions, by_insertions, by_deletions)
