"""Compiled loops for the best CTC labelings, the k best, and samples. Backtracking recomputes its choices.

The loops only use float64, so that they are compiled once. States are numbered along the target: 0 is the first blank,
1 the first label, 2 a blank again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.kernels.alignment.cpu import FUSED
from catena.kernels.common.jit import jit, jit_function
from catena.kernels.ctc.cpu import LEAVE_BLANK, LEAVE_LABEL, ROWS, SKIP_BLANK, STAY_BLANK, STAY_LABEL, WAYS, forward


@jit_function()
def _label_of(targets: Any, r: int, state: int, blank: int) -> int:
    return targets[r, state // 2] if state % 2 else blank


@jit_function()
def _steps_back(targets: Any, r: int, state: int, blank: int) -> int:
    """The most states that a frame may step over, the one it comes to included: from 0 (it stays) to 2."""
    if state < 2:
        return state
    label = _label_of(targets, r, state, blank)
    return 2 if label != blank and label != _label_of(targets, r, state - 2, blank) else 1


@jit_function()
def _best_step(targets: Any, r: int, state: int, blank: int, before: Any) -> int:
    """How many states the best way to a state steps over."""
    choice = 0
    for step in range(1, _steps_back(targets, r, state, blank) + 1):
        if before[state - step] > before[state - choice]:
            choice = step
    return choice


@jit("d3", "i2", "i1", "i1", "i", "i", "i", "i2")
def best_rows(
    emissions: Any, targets: Any, n_frames: Any, n_labels: Any, blank: int, low: int, high: int, labels: Any
) -> None:  # fmt: skip
    """The best labeling of each row; -1 beyond its frames and where none is possible."""
    t = emissions.shape[1]
    s = targets.shape[1]
    best = np.empty((t + 1, 2 * s + 1))
    for r in range(low, high):
        frames = n_frames[r]
        states = 2 * n_labels[r] + 1
        labels[r, :] = -1
        best[0, :] = -np.inf
        best[0, 0] = 0.0
        for i in range(frames):
            for k in range(states):
                step = _best_step(targets, r, k, blank, best[i])
                best[i + 1, k] = best[i, k - step] + emissions[r, i, _label_of(targets, r, k, blank)]
        k = states - 1
        if k > 0 and best[frames, k - 1] > best[frames, k]:
            k -= 1
        if best[frames, k] == -np.inf:
            continue
        for i in range(frames - 1, -1, -1):
            labels[r, i] = _label_of(targets, r, k, blank)
            k -= _best_step(targets, r, k, blank, best[i])


@jit_function()
def _ranked(before: Any, state: int, back: int, scores: Any, ways: Any) -> int:
    """The best ways (steps, rank before) to a state, best first, and how many there are: up to three lists merged."""
    heads = np.zeros(3, np.int64)
    width = scores.shape[0]
    for rank in range(width):
        top = -np.inf
        choice = -1
        for step in range(back + 1):
            if heads[step] < width and before[state - step, heads[step]] > top:
                top = before[state - step, heads[step]]
                choice = step
        if choice < 0:
            return rank
        scores[rank] = top
        ways[rank, 0], ways[rank, 1] = choice, heads[choice]
        heads[choice] += 1
    return width


@jit("d3", "i2", "i1", "i1", "i", "i", "i", "i3", "i1")
def top_rows(
    emissions: Any, targets: Any, n_frames: Any, n_labels: Any, blank: int, low: int, high: int, labels: Any, found: Any
) -> None:  # fmt: skip
    """The best labelings of each row into ``labels[r, n]``, best first, and how many there are."""
    t = emissions.shape[1]
    s = targets.shape[1]
    width = labels.shape[1]
    best = np.empty((t + 1, 2 * s + 1, width))
    scores = np.empty(width)
    ways = np.empty((width, 2), np.int64)
    for r in range(low, high):
        frames = n_frames[r]
        states = 2 * n_labels[r] + 1
        labels[r, :, :] = -1
        best[0, :, :] = -np.inf
        best[0, 0, 0] = 0.0
        for i in range(frames):
            for k in range(states):
                count = _ranked(best[i], k, _steps_back(targets, r, k, blank), scores, ways)
                own = emissions[r, i, _label_of(targets, r, k, blank)]
                for rank in range(width):
                    best[i + 1, k, rank] = scores[rank] + own if rank < count else -np.inf
        ends = min(states, 2) - 1
        found[r] = _ranked(best[frames], states - 1, ends, scores, ways)
        for n in range(found[r]):
            _ranked(best[frames], states - 1, ends, scores, ways)
            k = states - 1 - ways[n, 0]
            rank = ways[n, 1]
            for i in range(frames - 1, -1, -1):
                labels[r, n, i] = _label_of(targets, r, k, blank)
                _ranked(best[i], k, _steps_back(targets, r, k, blank), scores, ways)
                k = k - ways[rank, 0]
                rank = ways[rank, 1]


@jit_function()
def _drawn_step(shares: Any, i: int, state: int, uniform: float) -> int:
    """How many states a walk to this state stepped over at a frame, drawn by the shares."""
    j = state // 2
    if state % 2 == 0:
        left, stays = shares[i, LEAVE_LABEL, j], shares[i, STAY_BLANK, j]
        return 1 if left > 0 and (stays == 0 or uniform >= stays) else 0
    step = 0
    over = uniform - shares[i, STAY_LABEL, j]
    if over >= 0 and shares[i, LEAVE_BLANK, j] > 0:
        step = 1
        over = over - shares[i, LEAVE_BLANK, j]
    if over >= 0 and shares[i, SKIP_BLANK, j] > 0:
        step = 2
    return step


@jit("d3", "i2", "i1", "i1", "i", "i", "i", "d3", "i3", fastmath=FUSED)
def sample_rows(
    emissions: Any, targets: Any, n_frames: Any, n_labels: Any, blank: int, low: int, high: int, uniforms: Any,
    labels: Any,
) -> None:  # fmt: skip
    """``labels[n, r]``: labelings drawn by ``uniforms[n, r]``, which has one number more than there are frames."""
    t = emissions.shape[1]
    s = targets.shape[1]
    w = np.zeros((ROWS, s + 2))
    shares = np.zeros((t, WAYS, s + 1))
    for r in range(low, high):
        log_z, ends_blank = forward(emissions, targets, r, n_frames[r], n_labels[r], blank, True, w, shares)
        labels[:, r, :] = -1
        for n in range(labels.shape[0] if log_z > -np.inf else 0):
            k = 2 * n_labels[r]
            if ends_blank == 0 or (ends_blank < 1 and uniforms[n, r, t] >= ends_blank):
                k -= 1
            for i in range(n_frames[r] - 1, -1, -1):
                labels[n, r, i] = _label_of(targets, r, k, blank)
                k -= _drawn_step(shares, i, k, uniforms[n, r, i])
