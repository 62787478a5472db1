r"""Few texts that stand for many: k-means of their vectors, and the text nearest to each center.

.. math::  \min_{\mu, a} \sum_i \| x_i - \mu_{a_i} \|^2

Lloyd 1982, from the k-means++ start of Arthur & Vassilvitskii 2007. A response set by clustering is that of Kannan et
al. 2016 (Smart Reply) in its plainest form. Time O(n k d) a round.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError

_ROUNDS = 50
_ROWS = 1 << 14
"""Rows that are compared with all centers at once."""


def k_means(
    vectors: Float[np.ndarray, "n d"], k: int, generator: np.random.Generator, rounds: int = _ROUNDS
) -> tuple[Float[np.ndarray, "k d"], Int[np.ndarray, " n"]]:
    """Centers and the nearest center of each vector. A cluster that loses all its vectors takes the farthest one."""
    n = len(vectors)
    if not 1 <= k <= n:
        raise DataError(f"{n} vectors make from 1 to {n} clusters, and {k} are asked for")
    centers = _first_centers(vectors, k, generator)
    nearest, distances = _assigned(vectors, centers)
    for _ in range(rounds):
        centers = _means(vectors, nearest, distances, k)
        before = nearest
        nearest, distances = _assigned(vectors, centers)
        if np.array_equal(before, nearest):
            break
    return centers, nearest


def medoids(
    vectors: Float[np.ndarray, "n d"], centers: Float[np.ndarray, "k d"], nearest: Int[np.ndarray, " n"]
) -> list[int]:
    """The row of the vector nearest to each center, among those of its cluster; clusters without any are left out."""
    found = []
    for j, center in enumerate(centers):
        members = np.flatnonzero(nearest == j)
        if len(members):
            found.append(int(members[np.argmin(((vectors[members] - center) ** 2).sum(1))]))
    return found


def _first_centers(vectors: np.ndarray, k: int, generator: np.random.Generator) -> np.ndarray:
    """Vectors drawn one after another, each in proportion to its squared distance from those before."""
    rows = [int(generator.integers(len(vectors)))]
    left = ((vectors - vectors[rows[0]]) ** 2).sum(1).astype(np.float64)
    while len(rows) < k:
        total = left.sum()
        if total > 0:
            rows.append(int(generator.choice(len(vectors), p=left / total)))
        else:  # all vectors that are left equal a center
            rows.append(int(generator.integers(len(vectors))))
        left = np.minimum(left, ((vectors - vectors[rows[-1]]) ** 2).sum(1))
    return vectors[rows].copy()


def _assigned(vectors: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest center of each vector, and the squared distance to it."""
    nearest = np.empty(len(vectors), np.int64)
    distances = np.empty(len(vectors))
    sizes = (centers**2).sum(1)
    for low in range(0, len(vectors), _ROWS):
        rows = np.asarray(vectors[low : low + _ROWS])
        apart = (rows**2).sum(1)[:, None] - 2 * rows @ centers.T + sizes
        nearest[low : low + _ROWS] = apart.argmin(1)
        distances[low : low + _ROWS] = np.maximum(apart.min(1), 0)
    return nearest, distances


def _means(vectors: np.ndarray, nearest: np.ndarray, distances: np.ndarray, k: int) -> np.ndarray:
    counts = np.bincount(nearest, minlength=k)
    centers = np.zeros((k, vectors.shape[1]), vectors.dtype)
    np.add.at(centers, nearest, vectors)
    centers /= np.maximum(counts, 1)[:, None]
    lost = np.flatnonzero(counts == 0)
    if len(lost):
        centers[lost] = vectors[np.argsort(-distances)[: len(lost)]]
    return centers
