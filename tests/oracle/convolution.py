"""Convolution one window at a time. Imports nothing of catena."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def convolve(x: Array, kernel: Array, bias: Array, before: int, places: int) -> Array:
    """``kernel[j, f]`` reads position place - before + j of x (t, d), padded with zeros."""
    t = len(x)
    result = []
    for place in range(places):
        total = bias.copy()
        for j in range(len(kernel)):
            i = place - before + j
            if 0 <= i < t:
                total = total + kernel[j] @ x[i]
        result.append(total)
    return np.array(result)


def k_largest(column: Array, k: int) -> list[float]:
    """The k largest values in their order, zeros behind where there are fewer. Values must differ."""
    kept = sorted(column, reverse=True)[:k]
    found = [float(value) for value in column if value in kept]
    return found + [0.0] * (k - len(found))
