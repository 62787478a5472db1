r"""One step of a causal Transformer for a few sequences, all its layers in one call.

What one more position makes of ``n`` sequences, whose keys and values so far lie in a cache. The plain form, which
defines what is right, is :mod:`catena.encoders.transformer`. Time O(n (l d² + l d d_ff + l s d)) for ``l`` layers
and ``s`` positions. Single precision; the maps may be of 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from catena.kernels.attention_cpu import attend_rows, round_up_to_vector
from catena.kernels.int8_products import map_rows8
from catena.kernels.jit import SUMS, jit, jit_function
from catena.kernels.panel_gemm import put_product, round_up_to_panel
from catena.kernels.threads import in_row_blocks
from catena.kernels.vector_math import exp_less

ACTIVATIONS = ("identity", "relu", "gelu", "swish")
"""Those that a step knows."""

ROWS = 128
"""Sequences that take a step together: weights are read once for all of them."""

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
_SLOPE = np.float32(0.4 / np.sqrt(2))
Q0, Q1, Q2, Q3, Q4, Q5, Q6, Q7, Q8 = (
    np.float32(q)
    for q in (
        0.225637768, 0.226379133, 0.202369641, 0.191415136, 0.0846027011, 0.080683572, 0.0905594426, -0.14358913,
        0.0419418034,
    )
)  # fmt: skip
"""erfc(z) = exp(-z²) t Q(t) with t = 1 / (1 + 0.4 z): the Chebyshev fit of degree 8 for z from 0 to 10, within 7e-8 of
each value."""


class TransformerWeights(NamedTuple):
    """The stacked weights of ``l`` equal layers.

    Maps are packed (:mod:`catena.kernels.panel_gemm`, or :mod:`catena.kernels.int8_products`) and biases are as wide
    as their panels.
    """

    heads: np.ndarray
    """queries, keys and values, ``l p d WIDE``"""
    heads_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray
    rise: np.ndarray
    rise_bias: np.ndarray
    fall: np.ndarray
    fall_bias: np.ndarray
    norms: np.ndarray
    """``norms[i]``: weight and bias of the norm of attention, weight and bias of that of the feed-forward part; behind
    the layers, in the first two rows, those of a norm at the end, if there is one"""
    eps: np.ndarray
    """what is added to the variances of each layer, ``l 2``"""


class Make(NamedTuple):
    """What the layers have in common."""

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
        begins: the first slot of each sequence that is real.
        turns: sines and cosines of rotary positions, ``n d_head``; no rows where there are none.
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
    """The rows from ``low`` to ``high`` alone."""
    n_heads, n_kv_heads, pre, activation, used = counts[0], counts[1], counts[2] == 1, counts[3], counts[4]
    n, d = high - low, x.shape[1]
    d_head = cache.shape[5]
    seen, found = np.empty((n, d), np.float32), np.empty((n, d), np.float32)
    projected = np.empty((n, heads_bias.shape[1]), np.float32)
    added = np.empty((n, output_bias.shape[1]), np.float32)
    fed = np.empty((n, rise_bias.shape[1]), np.float32)
    tail = np.empty((2, rise_bias.shape[1]), np.float32)
    scores, offsets = np.empty(round_up_to_vector(used), np.float32), np.empty(round_up_to_vector(used), np.int64)
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


def linear_rows(x: Any, panels: Any, bias: Any, y: Any) -> None:
    """y = bias + x w, for panels of floats or of bytes. Callable from compiled loops only."""
    raise NotImplementedError("map_rows is for compiled loops: call multiply_onto or multiply8")


@overload(linear_rows)
def _by_kind(x: Any, panels: Any, bias: Any, y: Any) -> Callable[..., None]:
    rows = map_rows8 if panels.dtype == types.int8 else _map_rows

    def call(x: Any, panels: Any, bias: Any, y: Any) -> None:
        rows(x, panels, bias, y)

    return call


@jit_function()
def _map_rows(x: Any, panels: Any, bias: Any, y: Any) -> None:
    put_product(x, panels, bias, y, 0, panels.shape[0])


@jit_function()
def copy_rows(x: Any, y: Any) -> None:
    """Write the numbers of x into y."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[r, j] = x[r, j]


@jit_function()
def add_rows(added: Any, x: Any) -> None:
    """Add numbers to those of x."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] += added[r, j]


@jit_function(SUMS)
def normalize(x: Any, weight: Any, bias: Any, eps: Any, y: Any) -> None:
    """Layer normalization of each row of x, into y."""
    n, d = x.shape
    for r in range(n):
        total = np.float32(0)
        for j in range(d):
            total += x[r, j]
        mean = total / np.float32(d)
        square = np.float32(0)
        for j in range(d):
            square += (x[r, j] - mean) * (x[r, j] - mean)
        scale = ONE / np.sqrt(square / np.float32(d) + eps)
        for j in range(d):
            y[r, j] = (x[r, j] - mean) * scale * weight[j] + bias[j]


@jit_function()
def apply_rotary(heads: Any, until: Any, turns: Any) -> None:
    """Turn every pair of neighboring features, up to that of the values, by the angle of its place in a head."""
    half = turns.shape[0] // 2
    for first in range(0, until, 2 * half):
        for j in range(half):
            even, odd = heads[first + 2 * j], heads[first + 2 * j + 1]
            sine, cosine = turns[j], turns[half + j]
            heads[first + 2 * j] = even * cosine - odd * sine
            heads[first + 2 * j + 1] = even * sine + odd * cosine


@jit_function()
def _remember(made: Any, n_heads: Any, keys: Any, values: Any, slot: Any) -> None:
    """Write the keys and values of a position, which stand behind its queries, into its slot."""
    n_kv_heads, _, d_head = keys.shape
    for g in range(n_kv_heads):
        for j in range(d_head):
            keys[g, slot, j] = made[(n_heads + g) * d_head + j]
            values[g, slot, j] = made[(n_heads + n_kv_heads + g) * d_head + j]


@jit_function(SUMS)
def activate(x: Any, activation: Any, room_for: Any) -> None:
    """The activation of a feed-forward layer, in place: 1 is ReLU, 2 GELU, 3 Swish, all others are the identity."""
    # Loops over numbers that are read and written in one array are not turned into vector instructions where the
    # compiler sees two names for it: so the exponentials have a place of their own.
    exponent, tail = room_for[0], room_for[1]
    for r in range(x.shape[0]):
        row = x[r]
        if activation == 1:
            for j in range(row.shape[0]):
                row[j] = max(row[j], ZERO)
        elif activation == 2:
            for j in range(row.shape[0]):
                exponent[j] = -HALF * row[j] * row[j]
            exp_less(exponent, ZERO, tail)
            for j in range(row.shape[0]):
                z = abs(row[j])
                t = ONE / (ONE + _SLOPE * z)
                q = (((((((Q8 * t + Q7) * t + Q6) * t + Q5) * t + Q4) * t + Q3) * t + Q2) * t + Q1) * t + Q0
                row[j] = max(row[j], ZERO) - z * (HALF * tail[j] * t * q)
        elif activation == 3:
            for j in range(row.shape[0]):
                exponent[j] = -abs(row[j])
            exp_less(exponent, ZERO, tail)
            for j in range(row.shape[0]):
                row[j] *= (ONE if row[j] > ZERO else tail[j]) / (ONE + tail[j])


def stack_arrays(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of one shape in single precision, one after another."""
    return np.ascontiguousarray(np.stack(arrays), np.float32)


def as_wide_as_panels(bias: np.ndarray) -> np.ndarray:
    """A bias, padded with zeros to a multiple of the panel width."""
    return np.pad(bias, (0, round_up_to_panel(len(bias)) - len(bias)))
