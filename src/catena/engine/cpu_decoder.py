"""One step of a Transformer decoder with attention to a source, all layers in one call.

A step computes the next position of ``n`` rows. The keys and values of target positions are in a pool that only grows,
one entry for each position of a row. A row is a list of entry indices: rows with a common prefix use the same entries,
and a search that reorders its rows copies indices but no keys. Attention to long rows is computed in blocks
(:mod:`catena.engine.cpu_kv_blocks`). The keys and values of the sources are in a separate array. The reference
implementation is :mod:`catena.seq2seq.transformer_decoder`. Time O(n (l d² + l d d_ff + l (t + s) d)) for ``l``
layers. float32; weight matrices may have 8 bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.engine.cpu_attention import attend_rows
from catena.engine.cpu_kv_blocks import BLOCK, attend_shared_blocks, pack
from catena.engine.cpu_layers import ACTIVATIONS, ROWS, activate, add_rows, apply_rotary, copy_rows, normalize
from catena.kernels.common.jit import SUMS, jit, jit_function
from catena.kernels.common.simd import round_up_to_vector
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.linear.cpu_int8 import linear_rows


class DecoderWeights(NamedTuple):
    """The stacked weights of ``l`` equal layers.

    Weight matrices are packed (:mod:`catena.kernels.linear.cpu`, or :mod:`catena.kernels.linear.cpu_int8`) and
    biases are padded to the width of their panels.
    """

    heads: np.ndarray
    """projections to queries, keys and values of self-attention, ``l p d WIDE``"""
    heads_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray
    query: np.ndarray
    """projection to the queries of attention to the source"""
    query_bias: np.ndarray
    found: np.ndarray
    """projection of the output of attention to the source"""
    found_bias: np.ndarray
    rise: np.ndarray
    rise_bias: np.ndarray
    fall: np.ndarray
    fall_bias: np.ndarray
    norms: np.ndarray
    """``norms[i]``: weight and bias of the norms of the three sublayers; after the last layer, in the first two rows,
    those of the final norm"""
    eps: np.ndarray
    """the constants added to the variances, ``l+1 3``"""


class LayerSpec(NamedTuple):
    """The properties that all layers have in common."""

    norm_first: bool
    activation: str


class KVPool(NamedTuple):
    """The keys and values of target positions, and the entries of each row."""

    pool: np.ndarray
    """``l 2 m h d_head``: keys and values of all entries"""
    entries: np.ndarray
    """the entries of each row, ``n t``; the step fills the last one"""
    begins: np.ndarray
    """the first of the ``t`` positions of each row that is not padding"""
    blocks: np.ndarray
    """``m l 2 h BLOCK*d_head``: consecutive entries in one layout (:mod:`catena.engine.cpu_kv_blocks`)"""
    ids: np.ndarray
    """the blocks of each row, ``n k``; negative after the last one"""
    fresh: np.ndarray
    """the block of each row that the step fills, because the last entry completes it; negative if there is none"""


class SourceKV(NamedTuple):
    """The keys and values of the source positions, and the range of each row."""

    data: np.ndarray
    """``l 2 m h d_head``: keys and values of all positions of all sources"""
    first: np.ndarray
    """the first position of each row's source"""
    sizes: np.ndarray
    """the number of its positions"""


def step(
    x: np.ndarray,
    weights: DecoderWeights,
    make: LayerSpec,
    written: KVPool,
    source: SourceKV,
    turns: np.ndarray,
    last_query: np.ndarray,
) -> None:
    """Replace the vectors ``x``, ``n d``, by the output of the layers, and store their keys and values.

    Keys and values are written to the last of each row's entries.

    Args:
        turns: sines and cosines of rotary positions, ``n d_head``; no rows if there are none.
        last_query: receives the queries of the last layer for attention to the source, ``n d``.
    """
    n = len(x)
    counts = np.array([make.norm_first, ACTIVATIONS.index(make.activation)])
    n_weights = sum(w.size for w in weights[:12:2])
    layers = _step8 if weights.heads.dtype == np.int8 else _step

    def run(low: int, high: int) -> None:
        for first in range(low, high, ROWS):
            last = min(first + ROWS, high)
            layers(x, *weights, *written, *source, turns, last_query, counts, first, last)

    in_row_blocks(run, n, n * n_weights)


def _layers(
    x: Any, heads: Any, heads_bias: Any, output: Any, output_bias: Any, query: Any, query_bias: Any, found: Any,
    found_bias: Any, rise: Any, rise_bias: Any, fall: Any, fall_bias: Any, norms: Any, eps: Any, pool: Any,
    entries: Any, begins: Any, blocks: Any, ids: Any, fresh: Any, source: Any, first: Any, sizes: Any, turns: Any,
    last_query: Any, counts: Any, low: Any, high: Any,
) -> None:  # fmt: skip
    """All layers for the rows from ``low`` to ``high``."""
    pre = counts[0] == 1
    activation = counts[1]
    d_head = pool.shape[4]
    n = high - low
    d = x.shape[1]
    n_layers = heads.shape[0]
    used = entries.shape[1]
    longest = used
    together = 1
    for r in range(low, high):
        longest = max(longest, sizes[r])
        together = max(together, rows_of_one_source(first, sizes, r, high))
    seen = np.empty((n, d), np.float32)
    looked = np.empty((n, d), np.float32)
    projected = np.empty((n, heads_bias.shape[1]), np.float32)
    added = np.empty((n, output_bias.shape[1]), np.float32)
    fed = np.empty((n, rise_bias.shape[1]), np.float32)
    tail = np.empty((2, rise_bias.shape[1]), np.float32)
    n_heads = d // d_head
    wide = round_up_to_vector(longest)
    scores = np.empty(n_heads * together * wide, np.float32)
    offsets = np.empty(together * wide, np.int64)
    masses = np.empty(together * n_heads, np.float32)
    of_heads = n_heads, n_heads, d_head, d_head
    here = x[low:high]
    for layer in range(n_layers):
        norm = norms[layer]
        keys, values = pool[layer, 0], pool[layer, 1]
        source_keys = source[layer, 0].ravel()
        source_values = source[layer, 1].ravel()
        _enter(here, pre, norm[0], norm[1], eps[layer, 0], seen)
        linear_rows(seen, heads[layer], heads_bias[layer], projected)
        if turns.shape[0]:
            for r in range(n):
                apply_rotary(projected[r], 2 * d, turns[low + r])
        for r in range(n):
            entry = entries[low + r, used - 1]
            for h in range(n_heads):
                for j in range(d_head):
                    keys[entry, h, j] = projected[r, d + h * d_head + j]
                    values[entry, h, j] = projected[r, 2 * d + h * d_head + j]
        for r in range(low, high):
            if fresh[r] >= 0:
                pack(keys, values, entries[r, used - BLOCK :], blocks[fresh[r], layer])
        r = 0
        while r < n:
            last = r + rows_of_one_source(first, sizes, low + r, high)
            attend_shared_blocks(
                projected[r:last], keys, values, entries[low + r : low + last], begins[low + r : low + last], blocks,
                layer, ids[low + r : low + last], scores, offsets, masses, looked[r:last],
            )  # fmt: skip
            r = last
        linear_rows(looked, output[layer], output_bias[layer], added)
        _leave(added, here, pre, norm[0], norm[1], eps[layer, 0], seen)

        _enter(here, pre, norm[2], norm[3], eps[layer, 1], seen)
        linear_rows(seen, query[layer], query_bias[layer], added)
        r = 0
        while r < n:
            last = r + rows_of_one_source(first, sizes, low + r, high)
            size = sizes[low + r]
            for s in range(size):
                offsets[s] = (first[low + r] + s) * d
            attend_rows(added[r:last], source_keys, source_values, offsets, size, of_heads, scores, looked[r:last])
            r = last
        if layer == n_layers - 1:
            for r in range(n):
                for j in range(d):
                    last_query[low + r, j] = added[r, j]
        linear_rows(looked, found[layer], found_bias[layer], added)
        _leave(added, here, pre, norm[2], norm[3], eps[layer, 1], seen)

        _enter(here, pre, norm[4], norm[5], eps[layer, 2], seen)
        linear_rows(seen, rise[layer], rise_bias[layer], fed)
        activate(fed, activation, tail)
        linear_rows(fed, fall[layer], fall_bias[layer], added)
        _leave(added, here, pre, norm[4], norm[5], eps[layer, 2], seen)
    if pre:
        normalize(here, norms[n_layers, 0], norms[n_layers, 1], eps[n_layers, 0], seen)
        copy_rows(seen, here)


_SHAPES = (
    "2", "4", "2", "4", "2", "4", "2", "4", "2", "4", "2", "4", "2", "3", "2", "f5", "i2", "i1", "f5", "i2", "i1",
    "f5", "i1", "i1", "2", "2", "i1", "i", "i",
)  # fmt: skip
_step = jit(*_SHAPES, fastmath=SUMS)(_layers)
_step8 = jit(*("c4" if shape == "4" else shape for shape in _SHAPES), fastmath=SUMS)(_layers)


@jit_function()
def rows_of_one_source(first: Any, sizes: Any, row: Any, high: Any) -> Any:
    """The number of rows from ``row`` on, up to ``high``, that attend to the same source positions."""
    n = 1
    while row + n < high and first[row + n] == first[row] and sizes[row + n] == sizes[row]:
        n += 1
    return n


@jit_function()
def _enter(here: Any, pre: Any, weight: Any, bias: Any, eps: Any, seen: Any) -> None:
    """The input of a sublayer: normalized first, or the vectors themselves."""
    if pre:
        normalize(here, weight, bias, eps, seen)
    else:
        copy_rows(here, seen)


@jit_function()
def _leave(added: Any, here: Any, pre: Any, weight: Any, bias: Any, eps: Any, seen: Any) -> None:
    """Add the output of a sublayer to the residual connection, and normalize it afterwards if the norm is last."""
    add_rows(added, here)
    if not pre:
        normalize(here, weight, bias, eps, seen)
        copy_rows(seen, here)
