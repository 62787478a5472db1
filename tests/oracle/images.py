"""Convolution, pooling and normalization of pictures, one value at a time. Imports nothing of catena or torch."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def correlate(x: Array, kernel: Array, bias: Array, stride: int = 1, padding: int = 0, groups: int = 1) -> Array:
    """``y[o, i, j]`` sums ``kernel[o, c, a, b] x[c, i stride + a - padding, j stride + b - padding]``."""
    c_out, per_group, window, _ = kernel.shape
    height, width = x.shape[1:]
    rows = (height + 2 * padding - window) // stride + 1
    columns = (width + 2 * padding - window) // stride + 1
    y = np.zeros((c_out, rows, columns))
    for o in range(c_out):
        first = (o // (c_out // groups)) * per_group
        for i in range(rows):
            for j in range(columns):
                total = bias[o]
                for c in range(per_group):
                    for a in range(window):
                        for b in range(window):
                            r, s = i * stride + a - padding, j * stride + b - padding
                            if 0 <= r < height and 0 <= s < width:
                                total += kernel[o, c, a, b] * x[first + c, r, s]
                y[o, i, j] = total
    return y


def normalize_channels(x: Array, mean: Array, variance: Array, scale: Array, shift: Array, eps: float) -> Array:
    """Batch normalization with given statistics."""
    y = np.zeros_like(x)
    for c in range(len(x)):
        y[c] = (x[c] - mean[c]) / (variance[c] + eps) ** 0.5 * scale[c] + shift[c]
    return y


def normalize_responses(x: Array, n: int = 5, k: float = 2.0, alpha: float = 1e-4, beta: float = 0.75) -> Array:
    """Local response normalization of Krizhevsky et al. 2012, section 3.3."""
    y = np.zeros_like(x)
    for c in range(len(x)):
        neighbors = range(max(0, c - n // 2), min(len(x), c + n // 2 + 1))
        for i in range(x.shape[1]):
            for j in range(x.shape[2]):
                total = sum(x[other, i, j] ** 2 for other in neighbors)
                y[c, i, j] = x[c, i, j] / (k + alpha * total) ** beta
    return y


def max_pool(x: Array, window: int, stride: int, padding: int = 0) -> Array:
    """The largest value of each window; values outside of the picture do not count."""
    c, height, width = x.shape
    rows = (height + 2 * padding - window) // stride + 1
    columns = (width + 2 * padding - window) // stride + 1
    y = np.zeros((c, rows, columns))
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride - padding, j * stride - padding
            part = x[:, max(0, top) : top + window, max(0, left) : left + window]
            y[:, i, j] = part.max(axis=(1, 2))
    return y
