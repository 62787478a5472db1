"""The compiled loops that sum over the labelings of CTC. Knows numpy alone; ``alignment_ctc`` knows torch.

A labeling walks through states: a blank, the first label of the target, a blank, the second label, and so on. Blanks
and labels are kept apart: ``blank[j]`` stands before label ``j``, and label ``j`` is kept at place ``j + 1``, behind a
zero. With each frame a blank is stayed at or come to from the label before it; a label is stayed at, come to from the
blank before it, or from the label before that if it is another one. So the emission of the blank is looked up and
exponentiated once for all of its states, and all loops run over neighbors.

Numbers and the backward pass are as in :mod:`catena.kernels.alignment.cpu`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.alignment.cpu import FUSED
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

BLANK, LABEL, NEW_BLANK, NEW_LABEL, WEIGHT = 0, 2, 4, 6, 8
"""Rows of the scratch: the states before and after a frame, and the weights of labels; an ``e`` below each ``m``."""

_SKIP = 10
"""0 where a label may be come to from the one before it, else the exponent of zero."""

_TERM = 11
"""Three rows: the ways to each state, one by one."""

ROWS = 14
STAY_BLANK, LEAVE_LABEL, STAY_LABEL, LEAVE_BLANK, SKIP_BLANK = 0, 1, 2, 3, 4
"""Shares: of the two ways to a blank, and of the three ways to a label."""

WAYS = 5


@jit_function(FUSED)
def begin(targets: Any, r: int, n: int, blank: int, w: Any) -> None:
    """Before the first frame: at the first blank."""
    for row in range(0, WEIGHT, 2):
        for j in range(n + 2):
            w[row, j] = 0.0
            w[row + 1, j] = NOWHERE
    w[BLANK, 0], w[BLANK + 1, 0] = 1.0, 0.0
    for j in range(n):
        may = j > 0 and targets[r, j] != targets[r, j - 1] and targets[r, j] != blank
        w[_SKIP, j] = 0.0 if may else NOWHERE


@jit_function(FUSED)
def weigh_labels(emissions: Any, r: int, i: int, targets: Any, n: int, w: Any) -> None:
    """The exponentials of the emissions of the target's labels at a frame."""
    for j in range(n):
        w[_TERM, j] = emissions[r, i, targets[r, j]]
    for j in range(n):
        x = w[_TERM, j]
        e = exp_to_exponent(x)
        w[WEIGHT + 1, j] = e
        w[WEIGHT, j] = exp_mantissa(x, e)


@jit_inline(FUSED)
def _keep(w: Any, n: int, row: int, total: int, further: int, shares: Any, i: int, way: int) -> None:
    for j in range(n):
        m = w[total, j + further]
        shares[i, way, j] = w[row, j] / m if m > 0 else 0.0


@jit_function(FUSED)
def _move_to_blanks(w: Any, n: int, m: float, e: float, keep: bool, shares: Any, i: int) -> None:
    for j in range(n + 1):
        a, b = w[BLANK + 1, j], w[LABEL + 1, j]
        w[NEW_BLANK + 1, j] = a if a > b else b
    for j in range(n + 1):
        w[_TERM, j] = w[BLANK, j] * power_of_two(w[BLANK + 1, j] - w[NEW_BLANK + 1, j])
    for j in range(n + 1):
        w[_TERM + 1, j] = w[LABEL, j] * power_of_two(w[LABEL + 1, j] - w[NEW_BLANK + 1, j])
    for j in range(n + 1):
        w[NEW_BLANK, j] = w[_TERM, j] + w[_TERM + 1, j]
    if keep:
        _keep(w, n + 1, _TERM, NEW_BLANK, 0, shares, i, STAY_BLANK)
        _keep(w, n + 1, _TERM + 1, NEW_BLANK, 0, shares, i, LEAVE_LABEL)
    for j in range(n + 1):
        value = w[NEW_BLANK, j] * m
        w[NEW_BLANK + 1, j] = get_exponent(value, w[NEW_BLANK + 1, j] + e)
        w[NEW_BLANK, j] = mantissa(value)


@jit_function(FUSED)
def _move_to_labels(w: Any, n: int, keep: bool, shares: Any, i: int) -> None:
    for j in range(n):
        a = w[LABEL + 1, j + 1]
        b = w[BLANK + 1, j]
        c = w[LABEL + 1, j] + w[_SKIP, j]
        a = a if a > b else b
        w[NEW_LABEL + 1, j + 1] = a if a > c else c
    for j in range(n):
        w[_TERM, j] = w[LABEL, j + 1] * power_of_two(w[LABEL + 1, j + 1] - w[NEW_LABEL + 1, j + 1])
    for j in range(n):
        w[_TERM + 1, j] = w[BLANK, j] * power_of_two(w[BLANK + 1, j] - w[NEW_LABEL + 1, j + 1])
    for j in range(n):
        skipped = w[LABEL, j] * power_of_two(w[LABEL + 1, j] + w[_SKIP, j] - w[NEW_LABEL + 1, j + 1])
        w[_TERM + 2, j] = (
            skipped if w[_SKIP, j] == 0 else 0.0
        )  # a zero by its exponent alone may be the greatest of all
    for j in range(n):
        w[NEW_LABEL, j + 1] = w[_TERM, j] + w[_TERM + 1, j] + w[_TERM + 2, j]
    if keep:
        _keep(w, n, _TERM, NEW_LABEL, 1, shares, i, STAY_LABEL)
        _keep(w, n, _TERM + 1, NEW_LABEL, 1, shares, i, LEAVE_BLANK)
        _keep(w, n, _TERM + 2, NEW_LABEL, 1, shares, i, SKIP_BLANK)
    for j in range(n):
        value = w[NEW_LABEL, j + 1] * w[WEIGHT, j]
        w[NEW_LABEL + 1, j + 1] = get_exponent(value, w[NEW_LABEL + 1, j + 1] + w[WEIGHT + 1, j])
        w[NEW_LABEL, j + 1] = mantissa(value)


@jit_function(FUSED)
def forward(
    emissions: Any, targets: Any, r: int, n_frames: int, n: int, blank: int, keep: bool, w: Any, shares: Any
) -> Any:  # fmt: skip
    """(log Z of one row, the probability that it ends with a blank); with ``keep`` also the shares at every frame."""
    begin(targets, r, n, blank, w)
    for i in range(n_frames):
        x = np.float64(emissions[r, i, blank])
        e = exp_to_exponent(x)
        _move_to_blanks(w, n, exp_mantissa(x, e), e, keep, shares, i)
        weigh_labels(emissions, r, i, targets, n, w)
        _move_to_labels(w, n, keep, shares, i)
        for row in range(BLANK, BLANK + 4):
            for j in range(n + 1):
                w[row, j] = w[row + NEW_BLANK, j]
    a, b = w[BLANK + 1, n], w[LABEL + 1, n]
    e = a if a > b else b
    ends_blank = w[BLANK, n] * power_of_two(a - e)
    total = ends_blank + w[LABEL, n] * power_of_two(b - e)
    return scaled_log(total, e), ends_blank / total if total > 0 else 0.0


@jit_function(FUSED)
def _backward(
    targets: Any, r: int, n_frames: int, n: int, ends_blank: float, w: Any, shares: Any, marginals: Any
) -> None:
    """Write at ``[r, i, j]`` the probability that frame ``i`` belongs to label ``j``; the last ``j`` is the blank."""
    last = marginals.shape[2] - 1
    for j in range(n + 1):
        w[BLANK, j] = w[LABEL, j] = 0.0
    w[BLANK, n] = ends_blank
    if n > 0:
        w[LABEL, n - 1] = 1.0 - ends_blank
    for i in range(n_frames - 1, -1, -1):
        blanks = 0.0
        for j in range(n + 1):
            blanks += w[BLANK, j]
        marginals[r, i, last] = blanks
        for j in range(n):
            marginals[r, i, j] = w[LABEL, j]
        for j in range(n + 1):
            w[NEW_BLANK, j] = w[BLANK, j] * shares[i, STAY_BLANK, j]
        for j in range(n):
            w[NEW_BLANK, j] += w[LABEL, j] * shares[i, LEAVE_BLANK, j]
        for j in range(n):
            w[NEW_LABEL, j] = w[LABEL, j] * shares[i, STAY_LABEL, j] + w[BLANK, j + 1] * shares[i, LEAVE_LABEL, j + 1]
        for j in range(n - 1):
            w[NEW_LABEL, j] += w[LABEL, j + 1] * shares[i, SKIP_BLANK, j + 1]
        for j in range(n + 1):
            w[BLANK, j] = w[NEW_BLANK, j]
            w[LABEL, j] = w[NEW_LABEL, j] if j < n else 0.0


@jit("3", "i2", "i1", "i1", "i", "i", "i", "b", "d1", "3", fastmath=FUSED)
def sum_rows(
    emissions: Any, targets: Any, n_frames: Any, n_labels: Any, blank: int, low: int, high: int, both_ways: bool,
    log_z: Any, marginals: Any,
) -> None:  # fmt: skip
    """log Z of the rows ``low`` to ``high``; with ``both_ways`` also the probabilities, whose array is zero before."""
    t = emissions.shape[1]
    s = targets.shape[1]
    w = np.zeros((ROWS, s + 2))
    shares = np.zeros((t, WAYS, s + 1) if both_ways else (1, WAYS, 1))
    for r in range(low, high):
        frames = n_frames[r]
        n = n_labels[r]
        log_z[r], ends_blank = forward(emissions, targets, r, frames, n, blank, both_ways, w, shares)
        if both_ways and log_z[r] != -np.inf:
            _backward(targets, r, frames, n, ends_blank, w, shares, marginals)


@jit("3", "1", "i2", "i1", "i1", "i", "i", "i", "3")
def spread_rows(
    marginals: Any, scale: Any, targets: Any, n_frames: Any, n_labels: Any, blank: int, low: int, high: int, result: Any
) -> None:  # fmt: skip
    """Add to ``result[r, i, q]``, which is zero, scale × the probabilities of the states with label ``q``."""
    last = marginals.shape[2] - 1
    for r in range(low, high):
        for i in range(n_frames[r]):
            result[r, i, blank] += scale[r] * marginals[r, i, last]
            for j in range(n_labels[r]):
                result[r, i, targets[r, j]] += scale[r] * marginals[r, i, j]
