r"""Attention of several rows to positions that they have in common, in steps of a decoder on a CPU.

.. math::  f_{rh} = \sum_s \mathrm{softmax}_s\Big(\frac{q_{rh} \cdot k_{sh}}{\sqrt{d}}\Big)\, v_{sh}

Every :data:`BLOCK` positions of a row, counted from its start, are copied once into a block in the layout of
:mod:`catena.kernels.linear.cpu`: for each head a panel of keys, one column for each position, and panels of values.
Hypotheses of a beam with a common prefix use the same blocks, so that one product scores a block for all of them, and
its memory is read once and in order. The last positions of a row, fewer than a block, are read from their original
location (:mod:`catena.engine.cpu_attention`). Heads whose size is not a multiple of the panel width have no blocks.

Single precision. Time O(n s d), of which reading takes O(d) for each position that is not shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.engine.cpu_attention import gather, repeat_last, score
from catena.kernels.common.jit import SUMS, jit_function
from catena.kernels.common.simd import exponentials, pointer_to, round_up_to_vector
from catena.kernels.linear.cpu import PANEL_COLUMNS, add_tiles

BLOCK = PANEL_COLUMNS
"""Number of positions of a block."""

ONE, ZERO = np.float32(1), np.float32(0)


@jit_function()
def pack(keys: Any, values: Any, entries: Any, block: Any) -> None:
    """Copy the keys and values of :data:`BLOCK` entries, ``m h d_head``, into a block, ``2 h BLOCK*d_head``."""
    n_heads, d_head = keys.shape[1:]
    for h in range(n_heads):
        of_keys, of_values = block[0, h], block[1, h]
        for s in range(BLOCK):
            key = keys[entries[s], h]
            value = values[entries[s], h]
            for j in range(d_head):
                of_keys[j * BLOCK + s] = key[j]
            for first in range(0, d_head, PANEL_COLUMNS):
                for j in range(PANEL_COLUMNS):
                    of_values[first * BLOCK + s * PANEL_COLUMNS + j] = value[first + j]


@jit_function()
def count_blocks(ids: Any) -> Any:
    """The number of blocks of a row."""
    n = 0
    while n < ids.shape[0] and ids[n] >= 0:
        n += 1
    return n


@jit_function()
def _alike(ids: Any, k: Any, row: Any) -> Any:
    """The number of rows from ``row`` on whose block ``k`` is the same, or that all have none."""
    n = 1
    while row + n < ids.shape[0] and ids[row + n, k] == ids[row, k]:
        n += 1
    return n


@jit_function(SUMS)
def attend_shared_blocks(
    queries: Any, keys: Any, values: Any, entries: Any, begins: Any, blocks: Any, layer: Any, ids: Any, scores: Any,
    offsets: Any, masses: Any, found: Any,
) -> None:  # fmt: skip
    """The attention output of all heads of ``n`` rows, each of which attends to its own positions.

    Args:
        queries: ``n d`` or wider.
        keys: the keys of all entries, ``m h d_head``; ``values`` has the same shape.
        entries: the entry of each position of each row, ``n t``.
        begins: the first of the ``t`` positions of each row that is not padding.
        blocks: all blocks, ``m l 2 h BLOCK*d_head``; those of ``layer`` are read.
        ids: the blocks of each row in the order of their positions, ``n k``; negative after the last one.
        scores: buffer of ``h n w`` values, where ``w`` is ``t``, rounded up.
        offsets: buffer of ``n w`` values.
        masses: buffer of ``n h`` values, the sums of the exponentials.
        found: receives the output, ``n d``.
    """
    n, stride = queries.shape
    n_heads, d_head = keys.shape[1], keys.shape[2]
    d = n_heads * d_head
    used = entries.shape[1]
    wide = round_up_to_vector(used)
    scale = ONE / np.sqrt(np.float32(d_head))
    size = BLOCK * d_head
    flat_keys = keys.ravel()
    flat_values = values.ravel()
    flat_found = found.ravel()
    filled = np.empty(n, np.int64)
    for r in range(n):
        filled[r] = BLOCK * count_blocks(ids[r])
        for h in range(n_heads):
            at = (h * n + r) * wide
            scores[at : at + filled[r]] = ZERO
    for k in range(ids.shape[1]):
        row = 0
        while row < n:
            rows = _alike(ids, k, row)
            if ids[row, k] >= 0:
                first = (ids[row, k] * blocks.shape[1] + layer) * 2 * n_heads * size
                for h in range(n_heads):
                    panel = pointer_to(blocks, first + h * size)
                    to = (h * n + row) * wide + k * BLOCK
                    add_tiles(queries, row * stride + h * d_head, stride, panel, d_head, scores, to, wide, rows)
            row += rows
    for r in range(n):
        begin = begins[r] + filled[r]
        for t in range(used - begin):
            offsets[r * wide + t] = entries[r, begin + t] * d
        if used > begin:
            repeat_last(offsets, r * wide, used - begin)
    for h in range(n_heads):
        low = h * d_head
        for r in range(n):
            rest = used - begins[r] - filled[r]
            to = (h * n + r) * wide + filled[r]
            score(
                queries, r * stride + low, d_head, flat_keys, flat_values, low, offsets, r * wide, rest, scores, to
            )  # fmt: skip
        for r in range(n):
            rest = used - begins[r] - filled[r]
            at = (h * n + r) * wide
            masses[r * n_heads + h] = exponentials(scores, at, filled[r] + rest, scale)
            gather(
                scores, at + filled[r], rest, d_head, flat_values, low, flat_keys, low + d_head, offsets, r * wide,
                flat_found, r * d + low,
            )  # fmt: skip
    for k in range(ids.shape[1]):
        row = 0
        while row < n:
            rows = _alike(ids, k, row)
            if ids[row, k] >= 0:
                first = ((ids[row, k] * blocks.shape[1] + layer) * 2 + 1) * n_heads * size
                for h in range(n_heads):
                    at = (h * n + row) * wide + k * BLOCK
                    for j in range(0, d_head, PANEL_COLUMNS):
                        panel = pointer_to(blocks, first + h * size + j * BLOCK)
                        to = row * d + h * d_head + j
                        add_tiles(scores, at, wide, panel, BLOCK, flat_found, to, d, rows)
            row += rows
    for r in range(n):
        for h in range(n_heads):
            share = ONE / masses[r * n_heads + h]
            for j in range(h * d_head, (h + 1) * d_head):
                found[r, j] *= share
