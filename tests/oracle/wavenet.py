"""WaveNet one position, one filter tap at a time, in plain numpy. Imports nothing of catena."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Layer(NamedTuple):
    """One layer; ``taps[j]`` is for the input j windows ago."""

    gap: int
    value_taps: list[Array]
    gate_taps: list[Array]
    value_bias: Array
    gate_bias: Array
    residual: tuple[Array, Array] | None
    skip: tuple[Array, Array]
    value_condition: Array | None = None
    """What is added inside the tanh, for all positions, or for each of them."""
    gate_condition: Array | None = None


def with_zeros(taps: list[Array], gap: int) -> list[Array]:
    """A filter with ``gap - 1`` explicit zeros between its taps."""
    filled = [taps[0]]
    for tap in taps[1:]:
        filled += [np.zeros_like(tap)] * (gap - 1) + [tap]
    return filled


def convolve(x: list[Array], taps: list[Array]) -> list[Array]:
    """Causal convolution by a double loop; the input before the first position is zero."""
    result = []
    for t in range(len(x)):
        total = np.zeros(taps[0].shape[0])
        for j, tap in enumerate(taps):
            if t - j >= 0:
                total = total + tap @ x[t - j]
        result.append(total)
    return result


def at(condition: Array | None, t: int) -> Array | float:
    if condition is None:
        return 0.0
    return condition if condition.ndim == 1 else condition[t]


def sigmoid(x: Array) -> Array:
    return np.array([1 / (1 + math.exp(-value)) for value in x])


def hidden(x: list[Array], layers: list[Layer], leave: tuple[Array, Array]) -> list[Array]:
    """The vectors before the softmax, after the second ReLU."""
    skips = [np.zeros(layers[0].skip[0].shape[0]) for _ in x]
    for layer in layers:
        values = convolve(x, with_zeros(layer.value_taps, layer.gap))
        gates = convolve(x, with_zeros(layer.gate_taps, layer.gap))
        following = []
        for t in range(len(x)):
            value = np.tanh(values[t] + layer.value_bias + at(layer.value_condition, t))
            z = value * sigmoid(gates[t] + layer.gate_bias + at(layer.gate_condition, t))
            skips[t] = skips[t] + layer.skip[0] @ z + layer.skip[1]
            residual = 0.0 if layer.residual is None else layer.residual[0] @ z + layer.residual[1]
            following.append(x[t] + residual)
        x = following
    return [np.maximum(leave[0] @ np.maximum(skip, 0) + leave[1], 0) for skip in skips]


def log_softmax(logits: Array) -> Array:
    top = max(logits)
    return logits - top - math.log(sum(math.exp(value - top) for value in logits))
