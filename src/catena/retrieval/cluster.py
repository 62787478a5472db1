r"""Representative texts of a large set: k-means of their vectors, and the text nearest to each center.

.. math::  \min_{\mu, a} \sum_i \| x_i - \mu_{a_i} \|^2

Lloyd 1982, with the k-means++ initialization of Arthur & Vassilvitskii 2007. A simple form of the response set by
clustering of Kannan et al. 2016 (Smart Reply). Time O(n k d) per round.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError

_ROUNDS = 50
_ROWS = 1 << 14
"""Number of rows compared with all centers in one batch."""


def k_means(
    vectors: Float[np.ndarray, "n d"], k: int, generator: np.random.Generator, rounds: int = _ROUNDS
) -> tuple[Float[np.ndarray, "k d"], Int[np.ndarray, " n"]]:
    """Return the centers and the nearest center of each vector. An empty cluster takes the farthest vector.

    Args:
        vectors: ``vectors[i]`` is vector i.
        k: number of clusters.
        generator: random generator of the initialization.
        rounds: largest number of rounds.
    """
    n = len(vectors)
    if not 1 <= k <= n:
        raise DataError(f"k must be from 1 to {n}, the number of vectors, got {k}. Use fewer clusters.")
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
    """Return the row of the vector nearest to each center within its cluster, without empty clusters."""
    found = []
    for j, center in enumerate(centers):
        rows = np.flatnonzero(nearest == j)
        if len(rows):
            found.append(int(rows[np.argmin(((vectors[rows] - center) ** 2).sum(1))]))
    return found


def _first_centers(vectors: np.ndarray, k: int, generator: np.random.Generator) -> np.ndarray:
    """Return k-means++ centers, each sampled in proportion to its squared distance from the previous ones."""
    rows = [int(generator.integers(len(vectors)))]
    left = ((vectors - vectors[rows[0]]) ** 2).sum(1).astype(np.float64)
    while len(rows) < k:
        total = left.sum()
        if total > 0:
            rows.append(int(generator.choice(len(vectors), p=left / total)))
        else:  # all remaining vectors equal a center
            rows.append(int(generator.integers(len(vectors))))
        left = np.minimum(left, ((vectors - vectors[rows[-1]]) ** 2).sum(1))
    return vectors[rows].copy()


def _assigned(vectors: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest center of each vector, and the squared distance to it."""
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
