"""Layer normalization, activations and rotary positions of a few rows, for compiled steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.kernels.common.jit import SUMS, jit_function
from catena.kernels.common.vector_math import exp_less
from catena.kernels.linear.cpu import round_up_to_panel

ACTIVATIONS = ("identity", "relu", "gelu", "swish")
"""The activations that a step supports."""

ROWS = 128
"""Number of sequences that take a step together, so that weights are read once for all of them."""

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


@jit_function()
def copy_rows(x: Any, y: Any) -> None:
    """Copy the values of x to y."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[r, j] = x[r, j]


@jit_function()
def add_rows(added: Any, x: Any) -> None:
    """Add values to x, in place."""
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
    """Rotate every pair of neighboring features of queries and keys by the angle of its position in the head."""
    half = turns.shape[0] // 2
    for first in range(0, until, 2 * half):
        for j in range(half):
            even, odd = heads[first + 2 * j], heads[first + 2 * j + 1]
            sine, cosine = turns[j], turns[half + j]
            heads[first + 2 * j] = even * cosine - odd * sine
            heads[first + 2 * j + 1] = even * sine + odd * cosine


@jit_function(SUMS)
def activate(x: Any, activation: Any, room_for: Any) -> None:
    """The activation of a feed-forward layer, in place: 1 is ReLU, 2 GELU, 3 Swish, all others are the identity."""
    # The compiler does not vectorize a loop that reads and writes one array under two names, so the exponentials have
    # their own buffer.
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
