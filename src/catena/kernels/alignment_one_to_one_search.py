"""CPU search of one-to-one alignments: the best, the k best, and samples. Backtracking recomputes its choices.

Arguments are as in :mod:`catena.kernels.alignment_one_to_one`; the loops only use float64, so that they are
compiled once. Alignments are written as the partner of each source position, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.alignment import ready
from catena.kernels.alignment_loops import FUSED
from catena.kernels.alignment_one_to_one import WORK
from catena.kernels.alignment_one_to_one_loops import AHEAD_SHARE, DROPPED, PAIRED, PUT_SHARE, ROWS, WAYS, forward
from catena.kernels.jit import jit, jit_function
from catena.kernels.ops import draws, fold_vmap, torch_operator
from catena.kernels.threads import in_row_blocks


@jit_function()
def _merge(a: Any, to_a: float, b: Any, to_b: float, scores: Any, ways: Any) -> int:
    """The best of two falling lists with a gain added to each: (which list, which rank), best first, and how many."""
    heads_a = heads_b = 0
    width = scores.shape[0]
    for rank in range(width):
        first = a[heads_a] + to_a if heads_a < width else -np.inf
        second = b[heads_b] + to_b if heads_b < width else -np.inf
        if first == -np.inf and second == -np.inf:
            return rank
        if first >= second:
            scores[rank], ways[rank, 0], ways[rank, 1] = first, 0, heads_a
            heads_a += 1
        else:
            scores[rank], ways[rank, 0], ways[rank, 1] = second, 1, heads_b
            heads_b += 1
    return width


@jit_function()
def _merge_ahead(scores: Any, target_gaps: Any, r: int, i: int, j: int, best: Any, values: Any, ways: Any) -> int:
    """The best ways to be ahead at a point: 0 by a pair from above left, 1 over a target position from the left."""
    if i == 0:
        return _merge(best[1, 0, j - 1], -np.inf, best[1, 0, j - 1], target_gaps[r, j - 1], values, ways)
    return _merge(
        best[0, i - 1, j - 1], scores[r, i - 1, j - 1], best[1, i, j - 1], target_gaps[r, j - 1], values, ways
    )


@jit_function()
def _merge_here(source_gaps: Any, r: int, i: int, j: int, best: Any, values: Any, ways: Any) -> int:
    """The best ways to a point: 0 from what is ahead there, 1 by leaving the source position over."""
    if i == 0:
        return _merge(best[1, 0, j], 0.0, best[1, 0, j], -np.inf, values, ways)
    return _merge(best[1, i, j], 0.0, best[0, i - 1, j], source_gaps[r, i - 1], values, ways)


@jit_function()
def _fill(values: Any, count: int, result: Any) -> None:
    for rank in range(result.shape[0]):
        result[rank] = values[rank] if rank < count else -np.inf


@jit_function()
def _best_points(
    scores: Any, source_gaps: Any, target_gaps: Any, r: int, n: int, m: int, best: Any, values: Any, ways: Any
) -> None:  # fmt: skip
    """``best[0, i, j]`` and ``best[1, i, j]``: the scores of the best ways to a point, and to be ahead there."""
    for i in range(n + 1):
        for j in range(m + 1):
            count = 0
            if j > 0:
                count = _merge_ahead(scores, target_gaps, r, i, j, best, values, ways)
            elif i == 0:
                values[0] = 0.0
                count = 1
            _fill(values, count, best[1, i, j])
            _fill(values, _merge_here(source_gaps, r, i, j, best, values, ways), best[0, i, j])


@jit("d3", "d2", "d2", "i1", "i1", "i", "i", "i3", "i1")
def top_rows(
    scores: Any, source_gaps: Any, target_gaps: Any, n_source: Any, n_target: Any, low: int, high: int, partners: Any,
    found: Any,
) -> None:  # fmt: skip
    """The best alignments of each row into ``partners[r, n]``, best first, and how many there are."""
    s, t = scores.shape[1:]
    width = partners.shape[1]
    best = np.empty((2, s + 1, t + 1, width))
    values, ways = np.empty(width), np.empty((width, 2), np.int64)
    for r in range(low, high):
        n, m = n_source[r], n_target[r]
        _best_points(scores, source_gaps, target_gaps, r, n, m, best, values, ways)
        partners[r, :, :] = -1
        found[r] = 0
        while found[r] < width and best[0, n, m, found[r]] > -np.inf:
            i, j, rank, ahead = n, m, found[r], False
            while i > 0:
                if ahead:
                    _merge_ahead(scores, target_gaps, r, i, j, best, values, ways)
                else:
                    _merge_here(source_gaps, r, i, j, best, values, ways)
                way, rank = ways[rank, 0], ways[rank, 1]
                if ahead and way == 0:
                    partners[r, found[r], i - 1] = j - 1
                    i, j, ahead = i - 1, j - 1, False
                elif ahead:
                    j -= 1
                elif way == 0:
                    ahead = True
                else:
                    i -= 1
            found[r] += 1


@jit("d3", "d2", "d2", "i1", "i1", "i", "i", "d3", "i3", fastmath=FUSED)
def sample_rows(
    scores: Any, source_gaps: Any, target_gaps: Any, n_source: Any, n_target: Any, low: int, high: int, uniforms: Any,
    partners: Any,
) -> None:  # fmt: skip
    """``partners[n, r]``: alignments drawn by ``uniforms[n, r]``, one number for each choice, the last one first."""
    s, t = scores.shape[1:]
    w, shares = np.zeros((ROWS, t + 1)), np.empty((WAYS, s + 1, t + 1))
    for r in range(low, high):
        log_z = forward(scores, source_gaps, target_gaps, r, n_source[r], n_target[r], True, w, shares)
        partners[:, r, :] = -1
        for n in range(partners.shape[0] if log_z > -np.inf else 0):
            i, j, drawn, ahead = n_source[r], n_target[r], 0, False
            while i > 0:
                first, second = (PAIRED, PUT_SHARE) if ahead else (AHEAD_SHARE, DROPPED)
                a, b = shares[first, i, j], shares[second, i, j]
                takes_second = b > 0 and (a == 0 or uniforms[n, r, drawn] >= a)
                drawn += 1
                if ahead and not takes_second:
                    partners[n, r, i - 1] = j - 1
                    i, j, ahead = i - 1, j - 1, False
                elif ahead:
                    j -= 1
                elif takes_second:
                    i -= 1
                else:
                    ahead = True


# --- operators ----------------------------------------------------------------------------------------------


def best(scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor) -> Tensor:
    """The partners in the best alignment of each row, ``[b, s]``."""
    return top(scores, source_gaps, target_gaps, n_source, n_target, 1)[0][:, 0]


@torch_operator("one_to_one_top")
def top(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The partners in the ``k`` best alignments of each row, ``[b, k, s]``, and how many of them there are."""
    b, s, t = scores.shape
    partners, found = torch.empty((b, k, s), dtype=torch.int64), torch.empty(b, dtype=torch.int64)
    arrays = ready(scores.double(), source_gaps.double(), target_gaps.double(), n_source, n_target)
    results = partners.numpy(), found.numpy()
    in_row_blocks(lambda low, high: top_rows(*arrays, low, high, *results), b, WORK * k * b * s * t)
    return partners, found


@top.register_fake
def _(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    b, s, _ = scores.shape
    return scores.new_empty((b, k, s), dtype=torch.int64), scores.new_empty(b, dtype=torch.int64)


fold_vmap(top)


@torch_operator("one_to_one_sample")
def sample(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor, uniforms: Tensor
) -> Tensor:
    """Alignments drawn from each row, ``[n, b, s]``, by uniform numbers ``[n, b, 2 s + t]``."""
    b, s, t = scores.shape
    partners = torch.empty((len(uniforms), b, s), dtype=torch.int64)
    arrays = ready(scores.double(), source_gaps.double(), target_gaps.double(), n_source, n_target)
    results = uniforms.contiguous().numpy(), partners.numpy()
    work = WORK * b * (s * t + len(uniforms) * (s + t))
    in_row_blocks(lambda low, high: sample_rows(*arrays, low, high, *results), b, work)
    return partners


draws(sample, lambda scores, _: scores.shape[1:2])
