"""Losses of style transfer and their gradients, one value at a time. Imports nothing of catena or torch."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def gram(f: Array) -> Array:
    """``G[i, j]`` is the sum over positions k of ``F[i, k] F[j, k]``: equation 3 of Gatys et al. (2015)."""
    n, m = f.shape
    g = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(m):
                g[i, j] += f[i, k] * f[j, k]
    return g


def layer_loss(f: Array, a: Array) -> float:
    """Equation 4, where ``a`` has the maps of a style picture, which may have another number of positions."""
    n = len(f)
    g, target = gram(f) / f.shape[1], gram(a) / a.shape[1]
    return sum((g[i, j] - target[i, j]) ** 2 for i in range(n) for j in range(n)) / (4 * n**2)


def layer_gradient(f: Array, a: Array) -> Array:
    """Equation 6 for maps without a ReLU: ``(F^T (G - A))[k, i] / (N^2 M)`` with means over positions in G and A."""
    n, m = f.shape
    difference = gram(f) / m - gram(a) / a.shape[1]
    gradient = np.zeros((n, m))
    for i in range(n):
        for k in range(m):
            for j in range(n):
                gradient[i, k] += f[j, k] * difference[j, i] / (n**2 * m)
    return gradient


def total_variation(x: Array) -> float:
    """The mean squared difference of neighbors in ``x[c, row, column]``."""
    channels, height, width = x.shape
    squares = []
    for c in range(channels):
        for i in range(height):
            for j in range(width):
                if i + 1 < height:
                    squares.append((x[c, i + 1, j] - x[c, i, j]) ** 2)
                if j + 1 < width:
                    squares.append((x[c, i, j + 1] - x[c, i, j]) ** 2)
    return sum(squares) / len(squares)
