"""CPU search of CTC: the best labelings, the k best, and samples. Backtracking recomputes its choices.

Arguments are as in :mod:`catena.kernels.alignment_ctc`; the loops only use float64, so that they are compiled
once. States are numbered as they are walked through: 0 is the first blank, 1 the first label, 2 a blank again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.alignment_ctc import WORK, ready
from catena.kernels.alignment_ctc_loops import (
    LEAVE_BLANK,
    LEAVE_LABEL,
    ROWS,
    SKIP_BLANK,
    STAY_BLANK,
    STAY_LABEL,
    WAYS,
    forward,
)
from catena.kernels.alignment_loops import FUSED
from catena.kernels.jit import jit, jit_function
from catena.kernels.ops import draws, fold_vmap, torch_operator
from catena.kernels.threads import in_row_blocks


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
    t, s = emissions.shape[1], targets.shape[1]
    best = np.empty((t + 1, 2 * s + 1))
    for r in range(low, high):
        frames, states = n_frames[r], 2 * n_labels[r] + 1
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


# --- the k best ---------------------------------------------------------------------------------------------


@jit_function()
def _ranked(before: Any, state: int, back: int, scores: Any, ways: Any) -> int:
    """The best ways (steps, rank before) to a state, best first, and how many there are: up to three lists merged."""
    heads, width = np.zeros(3, np.int64), scores.shape[0]
    for rank in range(width):
        top, choice = -np.inf, -1
        for step in range(back + 1):
            if heads[step] < width and before[state - step, heads[step]] > top:
                top, choice = before[state - step, heads[step]], step
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
    t, s, width = emissions.shape[1], targets.shape[1], labels.shape[1]
    best = np.empty((t + 1, 2 * s + 1, width))
    scores, ways = np.empty(width), np.empty((width, 2), np.int64)
    for r in range(low, high):
        frames, states = n_frames[r], 2 * n_labels[r] + 1
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
            k, rank = states - 1 - ways[n, 0], ways[n, 1]
            for i in range(frames - 1, -1, -1):
                labels[r, n, i] = _label_of(targets, r, k, blank)
                _ranked(best[i], k, _steps_back(targets, r, k, blank), scores, ways)
                k, rank = k - ways[rank, 0], ways[rank, 1]


# --- samples ------------------------------------------------------------------------------------------------


@jit_function()
def _drawn_step(shares: Any, i: int, state: int, uniform: float) -> int:
    """How many states a walk to this state stepped over at a frame, drawn by the shares."""
    j = state // 2
    if state % 2 == 0:
        left, stays = shares[i, LEAVE_LABEL, j], shares[i, STAY_BLANK, j]
        return 1 if left > 0 and (stays == 0 or uniform >= stays) else 0
    step, over = 0, uniform - shares[i, STAY_LABEL, j]
    if over >= 0 and shares[i, LEAVE_BLANK, j] > 0:
        step, over = 1, over - shares[i, LEAVE_BLANK, j]
    if over >= 0 and shares[i, SKIP_BLANK, j] > 0:
        step = 2
    return step


@jit("d3", "i2", "i1", "i1", "i", "i", "i", "d3", "i3", fastmath=FUSED)
def sample_rows(
    emissions: Any, targets: Any, n_frames: Any, n_labels: Any, blank: int, low: int, high: int, uniforms: Any,
    labels: Any,
) -> None:  # fmt: skip
    """``labels[n, r]``: labelings drawn by ``uniforms[n, r]``, which has one number more than there are frames."""
    t, s = emissions.shape[1], targets.shape[1]
    w, shares = np.zeros((ROWS, s + 2)), np.zeros((t, WAYS, s + 1))
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


# --- operators ----------------------------------------------------------------------------------------------


@torch_operator("ctc_best")
def best(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """The best labeling of each row, ``[b, t]``."""
    b, t, _ = emissions.shape
    labels = torch.empty((b, t), dtype=torch.int64)
    arrays = ready(emissions.double(), targets, n_frames, n_labels)
    work = WORK * b * t * (2 * targets.shape[1] + 1)
    in_row_blocks(lambda low, high: best_rows(*arrays, blank, low, high, labels.numpy()), b, work)
    return labels


@torch_operator("ctc_top")
def top(
    emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int, k: int
) -> tuple[Tensor, Tensor]:
    """The ``k`` best labelings of each row, ``[b, k, t]``, and how many of them there are."""
    b, t, _ = emissions.shape
    labels, found = torch.empty((b, k, t), dtype=torch.int64), torch.empty(b, dtype=torch.int64)
    arrays, results = ready(emissions.double(), targets, n_frames, n_labels), (labels.numpy(), found.numpy())
    work = WORK * k * b * t * (2 * targets.shape[1] + 1)
    in_row_blocks(lambda low, high: top_rows(*arrays, blank, low, high, *results), b, work)
    return labels, found


@best.register_fake
def _(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    return emissions.new_empty(emissions.shape[:2], dtype=torch.int64)


@top.register_fake
def _(
    emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int, k: int
) -> tuple[Tensor, Tensor]:
    b, t, _ = emissions.shape
    return emissions.new_empty((b, k, t), dtype=torch.int64), emissions.new_empty(b, dtype=torch.int64)


fold_vmap(best)
fold_vmap(top)


@torch_operator("ctc_sample")
def sample(
    emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int, uniforms: Tensor
) -> Tensor:
    """Labelings drawn from each row, ``[n, b, t]``, by uniform numbers ``[n, b, t + 1]``."""
    b, t, _ = emissions.shape
    labels = torch.empty((len(uniforms), b, t), dtype=torch.int64)
    arrays = ready(emissions.double(), targets, n_frames, n_labels)
    results = uniforms.contiguous().numpy(), labels.numpy()
    work = WORK * b * t * (targets.shape[1] + 1 + len(uniforms))
    in_row_blocks(lambda low, high: sample_rows(*arrays, blank, low, high, *results), b, work)
    return labels


draws(sample, lambda scores, _: scores.shape[1:2])
