"""CPU search of segmentations: the best and samples. Backtracking recomputes its choices.

Arguments are as in :mod:`catena.kernels.semimarkov`. Structures are triples (begin, end, label), ``[b, t, 3]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.jit import jit, jit_function, jit_inline
from catena.kernels.ops import draws, fold_vmap, torch_operator
from catena.kernels.semimarkov_loops import forward
from catena.kernels.threads import in_row_blocks


@jit_inline()
def turn_around(triples: Any, count: int) -> None:
    """Triples were found from the last to the first."""
    for c in range(count // 2):
        for v in range(3):
            a, b = triples[c, v], triples[count - 1 - c, v]
            triples[c, v], triples[count - 1 - c, v] = b, a


@jit_function()
def _best_ends(segments: Any, table: Any, start: Any, n: int, best: Any, entry: Any) -> None:
    """``best[j, y]``: the best score of ``j`` positions that end in ``y``; ``entry`` is the same before a segment."""
    m, k = segments.shape[1:]
    for y in range(k):
        entry[0, y] = start[y]
    for j in range(1, n + 1):
        for y in range(k):
            best[j, y] = entry[j, y] = -np.inf
        for size in range(1, min(m, j) + 1):
            for y in range(k):
                value = entry[j - size, y] + segments[j - size, size - 1, y]
                best[j, y] = value if value > best[j, y] else best[j, y]
        for x in range(k):
            for y in range(k):
                value = best[j, x] + table[x, y]
                entry[j, y] = value if value > entry[j, y] else entry[j, y]


@jit("4", "d3", "d2", "d2", "i1", "i", "i", "i", "i3")
def best_rows(
    segments: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int, members: Any
) -> None:
    """The best segmentation of each row; -1 behind its last segment and where none is possible."""
    _, t, m, k = segments.shape
    best, entry = np.empty((t + 1, k)), np.empty((t + 1, k))
    for r in range(low, high):
        g, j, count, label = r // each, lengths[r], 0, -1
        for i in range(t):
            for v in range(3):
                members[r, i, v] = -1
        _best_ends(segments[r], tables[g], start[g], j, best, entry)
        while j > 0:
            top, choice = -np.inf, -1
            for x in range(k):
                value = best[j, x] + (end[g, x] if label < 0 else tables[g, x, label])
                if value > top:
                    top, choice = value, x
            if choice < 0:
                break
            label, top, size = choice, -np.inf, 1
            for s in range(1, min(m, j) + 1):
                value = entry[j - s, label] + segments[r, j - s, s - 1, label]
                if value > top:
                    top, size = value, s
            members[r, count, 0], members[r, count, 1], members[r, count, 2] = j - size, j, label
            count += 1
            j -= size
        turn_around(members[r], count)


@jit_inline()
def _drawn(logs: Any, n: int, uniform: float) -> int:
    """A number below ``n``, drawn in proportion to the exponentials of the logs."""
    top, total, running, place = -np.inf, 0.0, 0.0, -1
    for i in range(n):
        top = max(top, logs[i])
    for i in range(n):
        total += np.exp(logs[i] - top)
    for i in range(n):
        if logs[i] > -np.inf:
            place = i
            running += np.exp(logs[i] - top)
            if running > uniform * total:
                break
    return place


@jit("4", "d3", "d2", "d2", "i1", "i", "i", "i", "d4", "i4")
def sample_rows(
    segments: Any, tables: Any, start: Any, end: Any, lengths: Any, each: int, low: int, high: int, uniforms: Any,
    members: Any,
) -> None:  # fmt: skip
    """Segmentations ``[i, r]`` sampled with ``uniforms[i, r]``, two numbers for each segment, from the end."""
    _, t, m, k = segments.shape
    alpha, entry, logs = np.empty((t + 1, k)), np.empty((t + 1, k)), np.empty(max(m, k))
    terms, room = np.empty((max(m, k), k)), np.empty((2, k))
    for r in range(low, high):
        g, log_z = r // each, -np.inf
        if lengths[r] > 0:
            log_z = forward(segments[r], tables[g], start[g], end[g], lengths[r], alpha, entry, terms, room)
        for i in range(members.shape[0]):
            for c in range(t):
                for v in range(3):
                    members[i, r, c, v] = -1
            j, count, label = lengths[r] if log_z > -np.inf else 0, 0, -1
            while j > 0:
                for x in range(k):
                    logs[x] = alpha[j, x] + (end[g, x] if label < 0 else tables[g, x, label])
                label = _drawn(logs, k, uniforms[i, r, count, 0])
                for s in range(1, min(m, j) + 1):
                    logs[s - 1] = entry[j - s, label] + segments[r, j - s, s - 1, label]
                size = 1 + _drawn(logs, min(m, j), uniforms[i, r, count, 1])
                members[i, r, count, 0], members[i, r, count, 1], members[i, r, count, 2] = j - size, j, label
                count += 1
                j -= size
            turn_around(members[i, r], count)


# --- operators --------------------------------------------------------------------------------------------------------


@torch_operator("semimarkov_best")
def best(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """The best segmentation of each row, ``[b, t, 3]``."""
    b, t, m, k = segments.shape
    arrays = arrays_of(segments, tables, start, end, lengths)
    members = torch.empty((b, t, 3), dtype=torch.int64)
    in_row_blocks(lambda low, high: best_rows(*arrays, low, high, members.numpy()), b, b * t * k * (m + k))
    return members


@best.register_fake
def _(segments: Tensor, *_: Tensor) -> Tensor:
    return segments.new_empty((*segments.shape[:2], 3), dtype=torch.int64)


fold_vmap(best)


@torch_operator("semimarkov_sample")
def sample(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    """Segmentations drawn from each row, ``[n, b, t, 3]``, by uniform numbers ``[n, b, t, 2]``."""
    b, t, m, k = segments.shape
    arrays = arrays_of(segments, tables, start, end, lengths)
    members = torch.empty((*uniforms.shape[:3], 3), dtype=torch.int64)
    results = (uniforms.contiguous().numpy(), members.numpy())
    work = 4 * b * t * (m + k) * (k + len(uniforms))
    in_row_blocks(lambda low, high: sample_rows(*arrays, low, high, *results), b, work)
    return members


draws(sample, lambda scores, _: (scores.shape[1], 3))


def arrays_of(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> tuple[Any, ...]:
    """Contiguous arrays, all but the segments in float64; lengths that fit; the number of rows that share a table."""
    small = [x.detach().double().contiguous().numpy() for x in (tables, start, end)]
    lengths = lengths.clamp(0, segments.shape[1]).contiguous()
    return segments.detach().contiguous().numpy(), *small, lengths.numpy(), segments.shape[0] // tables.shape[0]
