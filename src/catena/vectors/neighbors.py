"""Exact nearest neighbors, by blockwise matrix products that keep the best k.

Memory does not grow with the number of rows, so they may be memory-mapped. Time O(n v d) for n queries.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Int

from catena.errors import DataError
from catena.kernels.top_k.cpu_nearest import keep_best, keep_best_analogies

_CELLS = 1 << 23
"""Number of scores kept in memory: 32 MB."""
LEAST_BLOCK, MOST_BLOCK = 1 << 10, 1 << 16


def lengths(matrix: Float32[np.ndarray, "v d"]) -> Float32[np.ndarray, " v"]:
    """The norm of each row; 1 for zero rows, so that their cosine is 0."""
    found = np.empty(len(matrix), np.float32)
    for low in range(0, len(matrix), MOST_BLOCK):
        part = np.asarray(matrix[low : low + MOST_BLOCK])
        found[low : low + MOST_BLOCK] = np.sqrt(np.einsum("vd,vd->v", part, part))
    found[found == 0] = 1.0
    return found


def nearest(
    matrix: Float32[np.ndarray, "v d"],
    norms: Float32[np.ndarray, " v"],
    queries: Float32[np.ndarray, "n d"],
    k: int,
    most: int | None = None,
) -> tuple[Float32[np.ndarray, "n k"], Int[np.ndarray, "n k"]]:
    """The cosines and indices of the ``k`` rows nearest to each query, best first.

    Ties are broken by the first row.

    Args:
        matrix: the rows.
        norms: their norms.
        queries: the query vectors.
        k: number of neighbors.
        most: search only this many rows, from the first.
    """
    v = len(matrix) if most is None else min(most, len(matrix))
    k = min(checked_number(k), v)
    scores, places = _empty_heaps(len(queries), k)
    sizes = np.linalg.norm(queries, axis=1, keepdims=True)
    units = (queries / np.where(sizes == 0, 1, sizes)).astype(np.float32)
    for low, high in _blocks(v, len(queries)):
        found = units @ np.asarray(matrix[low:high]).T
        keep_best(np.ascontiguousarray(found), norms[low:high], low, scores, places)
    return _sorted(scores, places)


def best_analogies(
    matrix: Float32[np.ndarray, "v d"],
    norms: Float32[np.ndarray, " v"],
    questions: Int[np.ndarray, "n 3"],
    k: int,
    multiply: bool = False,
    most: int | None = None,
) -> tuple[Float32[np.ndarray, "n k"], Int[np.ndarray, "n k"]]:
    """The best answers to "a is to b as c is to ?" for rows a, b, c, which are not answers themselves.

    Cosines are computed once for each distinct word, regardless of the number of questions: time O(u v d + n v) for u
    distinct words. Scores are cosines with b - a + c of unit vectors, or the product of 3CosMul.
    """
    v = len(matrix) if most is None else min(most, len(matrix))
    k = min(checked_number(k), v)
    asked, numbers = np.unique(questions, return_inverse=True)
    units = np.asarray(matrix[asked]) / norms[asked, None]
    numbers = np.ascontiguousarray(numbers.reshape(questions.shape), np.int64)
    scores, places = _empty_heaps(len(questions), k)
    weights = np.array([-1, 1, 1], np.float32)
    excluded = np.ascontiguousarray(questions, np.int64)
    for low, high in _blocks(v, len(asked)):
        cosines = (units @ np.asarray(matrix[low:high]).T) / norms[low:high]
        cosines = np.ascontiguousarray(cosines, np.float32)
        keep_best_analogies(cosines, numbers, low, multiply, weights, excluded, scores, places)
    if not multiply:
        target = units[numbers[:, 1]] - units[numbers[:, 0]] + units[numbers[:, 2]]
        size = np.linalg.norm(target, axis=1, keepdims=True)
        scores /= np.where(size == 0, 1, size).astype(np.float32)
    return _sorted(scores, places)


def checked_number(k: int) -> int:
    """The number of neighbors. Raise DataError if it is below 1."""
    if k < 1:
        raise DataError(f"The number of neighbors must be 1 or more, got {k}. Use 10, for example.")
    return k


def _empty_heaps(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((n, k), -np.inf, np.float32), np.full((n, k), np.iinfo(np.int64).max, np.int64)


def _blocks(v: int, queries: int) -> list[tuple[int, int]]:
    size = max(LEAST_BLOCK, min(MOST_BLOCK, _CELLS // max(1, queries)))
    return [(low, min(low + size, v)) for low in range(0, v, size)]


def _sorted(scores: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((places, -scores), axis=1)
    scores, places = np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)
    places[np.isneginf(scores)] = -1  # fewer than k rows
    return scores, places
