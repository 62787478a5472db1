"""The k best segmentations on the CPU, by lists of the k best of every position and label.

Huang & Chiang (2005), algorithm 1. Arguments are as in :mod:`catena.kernels.semimarkov`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from catena.kernels.jit import jit
from catena.kernels.ops import fold_vmap, torch_operator
from catena.kernels.semimarkov_search import arrays_of, turn_around
from catena.kernels.threads import in_row_blocks
from catena.kernels.tree_search import place_way, top_of_lists


@njit(nogil=True)
def _top_ends(segments: Any, entry: Any, j: int, y: int, scores: Any, ways: Any) -> None:
    """The best ways (size of the segment, rank of what is before it) to end at ``j`` with label ``y``."""
    width, n = scores.shape[0], 0
    for size in range(1, min(segments.shape[1], j) + 1):
        own = segments[j - size, size - 1, y]
        for rank in range(width):
            value = entry[j - size, y, rank] + own
            if value == -np.inf or (n == width and value <= scores[width - 1]):
                break
            n = place_way(scores, ways, n, value, size, rank, 0)
    for rank in range(n, width):
        scores[rank] = -np.inf


@jit("4", "d3", "d2", "d2", "i1", "i", "i", "i", "i4", "i1")
def top_rows(
    segments: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int, members: Any,
    found: Any,
) -> None:  # fmt: skip
    """Write the best segmentations of each row to ``[r, k]``, best first, and their number."""
    t, k, width = segments.shape[1], segments.shape[3], members.shape[1]
    # entry[j, y]: what may come before a segment from j on with label y; best[j, y]: with one that ends at j.
    entry, best = np.empty((t + 1, k, width)), np.empty((t + 1, k, width))
    before, last = np.zeros((t + 1, k, width, 3), np.int64), np.zeros((t + 1, k, width, 3), np.int64)
    scores, tops = np.empty(width), np.zeros((width, 3), np.int64)
    for r in range(low, high):
        g, n = r // each, lengths[r]
        members[r] = -1
        if n == 0:
            found[r] = 1
            continue
        entry[0] = -np.inf
        entry[0, :, 0] = start[g]
        for j in range(1, n + 1):
            for y in range(k):
                _top_ends(segments[r], entry, j, y, best[j, y], last[j, y])
            for y in range(k):
                top_of_lists(best[j], tables[g, :, y], entry[j, y], before[j, y])
        found[r] = top_of_lists(best[n], end[g], scores, tops)
        for rank in range(found[r]):
            j, count, way = n, 0, tops[rank]
            while j > 0:
                y = way[0]
                size, rest = last[j, y, way[1], 0], last[j, y, way[1], 1]
                members[r, rank, count, 0] = j - size
                members[r, rank, count, 1] = j
                members[r, rank, count, 2] = y
                count += 1
                j -= size
                way = before[j, y, rest]
            turn_around(members[r, rank], count)


@torch_operator("semimarkov_top")
def top(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The ``n`` best segmentations of each row, ``[b, n, t, 3]``, and how many of them there are."""
    b, t, m, k = segments.shape
    arrays = arrays_of(segments, tables, start, end, lengths)
    members, found = torch.empty((b, n, t, 3), dtype=torch.int64), torch.empty(b, dtype=torch.int64)
    results = (members.numpy(), found.numpy())
    in_row_blocks(lambda low, high: top_rows(*arrays, low, high, *results), b, 4 * n * b * t * k * (m + k))
    return members, found


@top.register_fake
def _(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, n: int) -> Any:
    b, t = segments.shape[:2]
    return lengths.new_empty((b, n, t, 3)), lengths.new_empty(b)


fold_vmap(top)
