"""One step of a causal Transformer for a few sequences, all layers in one call.

A step computes the next position of ``n`` sequences. The keys and values of earlier positions are in a cache. The
reference implementation is :mod:`catena.encoders.transformer`. Time O(n (l d² + l d d_ff + l s d)) for ``l`` layers
and ``s`` positions. float32; weight matrices may have 8 bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from catena.engine.cpu_attention import attend_rows
from catena.engine.cpu_layers import ACTIVATIONS, ROWS, activate, add_rows, apply_rotary, copy_rows, normalize
from catena.kernels.common.jit import SUMS, jit, jit_function
from catena.kernels.common.simd import round_up_to_vector
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.linear.cpu_int8 import linear_rows


class TransformerWeights(NamedTuple):
    """The stacked weights of ``l`` equal layers.

    Weight matrices are packed (:mod:`catena.kernels.linear.cpu`, or :mod:`catena.kernels.linear.cpu_int8`) and
    biases are padded to the width of their panels.
    """

    heads: np.ndarray
    """projections to queries, keys and values, ``l p d WIDE``"""
    heads_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray
    rise: np.ndarray
    rise_bias: np.ndarray
    fall: np.ndarray
    fall_bias: np.ndarray
    norms: np.ndarray
    """``norms[i]``: weight and bias of the norm of attention, then of the norm of the feed-forward part; after the last
    layer, in the first two rows, those of the final norm, if there is one"""
    eps: np.ndarray
    """the constants added to the variances of each layer, ``l 2``"""


class Make(NamedTuple):
    """The properties that all layers have in common."""

    n_heads: int
    n_kv_heads: int
    norm_first: bool
    activation: str


def step(
    x: np.ndarray,
    weights: TransformerWeights,
    make: Make,
    cache: np.ndarray,
    used: int,
    begins: np.ndarray,
    turns: np.ndarray,
) -> None:
    """Replace the vectors ``x``, ``n d``, by the output of the layers, and store their keys and values.

    Keys and values are written to the last of the ``used`` slots of ``cache``, ``l 2 n h s d_head``.

    Args:
        begins: the first slot of each sequence that is not padding.
        turns: sines and cosines of rotary positions, ``n d_head``; no rows if there are none.
    """
    n = len(x)
    counts = np.array([make.n_heads, make.n_kv_heads, make.norm_first, ACTIVATIONS.index(make.activation), used])
    n_weights = weights.heads.size + weights.output.size + weights.rise.size + weights.fall.size
    layers = _step8 if weights.heads.dtype == np.int8 else _step

    def run(low: int, high: int) -> None:
        for first in range(low, high, ROWS):
            layers(x, *weights, cache, begins, turns, counts, first, min(first + ROWS, high))

    in_row_blocks(run, n, n * n_weights)


def _layers(
    x: Any, heads: Any, heads_bias: Any, output: Any, output_bias: Any, rise: Any, rise_bias: Any, fall: Any,
    fall_bias: Any, norms: Any, eps: Any, cache: Any, begins: Any, turns: Any, counts: Any, low: Any, high: Any,
) -> None:  # fmt: skip
    """All layers for the rows from ``low`` to ``high``."""
    n_heads = counts[0]
    n_kv_heads = counts[1]
    pre = counts[2] == 1
    activation = counts[3]
    used = counts[4]
    n = high - low
    d = x.shape[1]
    d_head = cache.shape[5]
    seen = np.empty((n, d), np.float32)
    found = np.empty((n, d), np.float32)
    projected = np.empty((n, heads_bias.shape[1]), np.float32)
    added = np.empty((n, output_bias.shape[1]), np.float32)
    fed = np.empty((n, rise_bias.shape[1]), np.float32)
    tail = np.empty((2, rise_bias.shape[1]), np.float32)
    scores = np.empty(round_up_to_vector(used), np.float32)
    offsets = np.empty(round_up_to_vector(used), np.int64)
    of_heads = n_heads, n_kv_heads, d_head, cache.shape[4] * d_head
    here = x[low:high]
    for layer in range(heads.shape[0]):
        norm = norms[layer]
        if pre:
            normalize(here, norm[0], norm[1], eps[layer, 0], seen)
        else:
            copy_rows(here, seen)
        linear_rows(seen, heads[layer], heads_bias[layer], projected)
        if turns.shape[0]:
            for r in range(n):
                apply_rotary(projected[r], (n_heads + n_kv_heads) * d_head, turns[low + r])
        for r in range(n):
            _remember(projected[r], n_heads, cache[layer, 0, low + r], cache[layer, 1, low + r], used - 1)
            size = used - begins[low + r]
            for s in range(size):
                offsets[s] = (begins[low + r] + s) * d_head
            attend_rows(
                projected[r : r + 1], cache[layer, 0, low + r].ravel(), cache[layer, 1, low + r].ravel(), offsets, size,
                of_heads, scores, found[r : r + 1],
            )  # fmt: skip
        linear_rows(found, output[layer], output_bias[layer], added)
        add_rows(added, here)
        if pre:
            normalize(here, norm[2], norm[3], eps[layer, 1], seen)
        else:
            normalize(here, norm[0], norm[1], eps[layer, 0], seen)
            copy_rows(seen, here)
        linear_rows(seen, rise[layer], rise_bias[layer], fed)
        activate(fed, activation, tail)
        linear_rows(fed, fall[layer], fall_bias[layer], added)
        add_rows(added, here)
        if not pre:
            normalize(here, norm[2], norm[3], eps[layer, 1], seen)
            copy_rows(seen, here)
    if len(norms) > len(heads):
        normalize(here, norms[-1, 0], norms[-1, 1], eps[-1, 0], seen)
        copy_rows(seen, here)


_SHAPES = ("2", "4", "2", "4", "2", "4", "2", "4", "2", "3", "2", "f6", "i1", "2", "i1", "i", "i")
_step = jit(*_SHAPES, fastmath=SUMS)(_layers)
_step8 = jit(*("c4" if shape == "4" else shape for shape in _SHAPES), fastmath=SUMS)(_layers)


@jit_function()
def _remember(made: Any, n_heads: Any, keys: Any, values: Any, slot: Any) -> None:
    """Write the keys and values of a position, which follow its queries in memory, into its slot."""
    n_kv_heads, _, d_head = keys.shape
    for g in range(n_kv_heads):
        for j in range(d_head):
            keys[g, slot, j] = made[(n_heads + g) * d_head + j]
            values[g, slot, j] = made[(n_heads + n_kv_heads + g) * d_head + j]
