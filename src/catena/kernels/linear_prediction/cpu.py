"""Adaptive linear predictors on a CPU, compiled: the same functions as in the reference implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64
from numba import float32, types

from catena.kernels.common.jit import DOUBLES, DOUBLES2, LONGS, SUMS, jit_function, lazy_jit
from catena.kernels.linear_prediction.reference import KEPT, LARGEST, MEMORY, PARTS

N_PARTS = len(PARTS)
_PREDICTIONS = types.Array(float32, 4, "C")


def read_(
    orders: Sequence[int], states: Float64[np.ndarray, "n s"], values: Float[np.ndarray, "n t"]
) -> Float32[np.ndarray, "n t p 4"]:
    """Read values; the states are changed in place. Returns the prediction of what follows each value."""
    found = np.empty((*values.shape, len(orders), N_PARTS), np.float32)
    constants = np.array([*KEPT, LARGEST])  # arguments: code that is compiled and stored does not know when they change
    forgettings = np.array([1 - 1 / (MEMORY * order) for order in orders])
    sizes = np.array(orders, np.int64)
    _read_all(sizes, forgettings, constants, states, np.ascontiguousarray(values, np.float64), found)
    return found


@lazy_jit(LONGS, DOUBLES, DOUBLES, DOUBLES2, DOUBLES2, _PREDICTIONS, fastmath=SUMS, error_model="numpy")
def _read_all(orders: Any, forgettings: Any, constants: Any, states: Any, values: Any, found: Any) -> None:
    gain = np.empty(orders.max() if len(orders) else 0)
    for r in range(values.shape[0]):
        for t in range(values.shape[1]):
            first = 0
            for p in range(orders.shape[0]):
                order = orders[p]
                _read_value(states[r], first, order, forgettings[p], constants, values[r, t], gain)
                for i in range(N_PARTS):
                    found[r, t, p, i] = states[r, first + i]
                first += N_PARTS + 2 * order + order * order


@jit_function(SUMS)
def _read_value(state: Any, first: Any, order: Any, forgetting: Any, constants: Any, value: Any, gain: Any) -> None:
    past = state[first + N_PARTS : first + N_PARTS + order]
    weights = state[first + N_PARTS + order : first + N_PARTS + 2 * order]
    start = first + N_PARTS + 2 * order
    error = value - state[first]
    for i in range(2):
        state[first + 1 + i] = constants[i] * state[first + 1 + i] + (1 - constants[i]) * abs(error)
    state[first + 3] = error
    trace = 0.0
    power = 0.0
    mean = 0.0
    for i in range(order):
        row = state[start + i * order : start + (i + 1) * order]
        total = 0.0
        for j in range(order):
            total += row[j] * past[j]
        gain[i] = total
        trace += row[i]
        power += total * past[i]
        mean += weights[i] * past[i]
    if trace >= constants[2]:
        forgetting = 1.0
    norm = math.sqrt(forgetting + max(power, 0.0))
    step = (value - mean) / norm
    for i in range(order):
        gain[i] /= norm
        weights[i] += gain[i] * step
    for i in range(order):
        row = state[start + i * order : start + (i + 1) * order]
        for j in range(order):
            row[j] = (row[j] - gain[i] * gain[j]) / forgetting  # exactly symmetric
    for i in range(order - 1, 0, -1):
        past[i] = past[i - 1]
    past[0] = value
    mean = 0.0
    for i in range(order):
        mean += weights[i] * past[i]
    state[first] = min(max(mean, -1.0), 1.0)
