r"""Sparse rows of features, and closed forms of ridge and kernel ridge regression on them, in float64.

A row has the features of a text, weighted by TF-IDF, and then the standardized numbers. Tested in
tests/tasks/regress/test_features.py.

Least squares, ridge and kernel ridge regression by their closed forms.

With centered features and values, and weights of the rows in the diagonal matrix S,

.. math::  w = (X^T S X + \alpha I)^{-1} X^T S y

has an unpenalized bias. Up to :data:`DIRECT` features the equations are solved directly; with more, by conjugate
gradients, which never form a matrix. Without a penalty the solution of minimum length is returned. Kernel ridge
regression is :math:`f(x) = \bar y + \sum_i a_i k(x, x_i)` with :math:`a = (K + \alpha S^{-1})^{-1} (y - \bar y)`.

Goodfellow et al. (2016), sections 5.1.4, 5.7.2 and 7.1.1. Tested in tests/tasks/regress/test_solvers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch.nn import functional as F

from catena.data.features import Features

_AT_ONCE = 20_000_000
"""Maximum number of values of a dense block."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix: ``values[k]`` is in row ``rows[k]`` and column ``ids[k]``.

    Args:
        rows: ascending.
        ids: the columns.
        values: the nonzero values.
        shape: numbers of rows and columns.
    """

    rows: Int[np.ndarray, " z"]
    ids: Int[np.ndarray, " z"]
    values: Float[np.ndarray, " z"]
    shape: tuple[int, int]

    @classmethod
    def of(cls, bags: Features | None, n_bag_columns: int, numbers: Float[np.ndarray, "n m"]) -> SparseRows:
        """The features of texts, if any, followed by numbers."""
        n, m = numbers.shape
        rows = np.repeat(np.arange(n), m)
        ids = np.tile(n_bag_columns + np.arange(m), n)
        values = numbers.reshape(-1).astype(np.float64)
        if bags is not None:
            rows = np.concatenate((np.repeat(np.arange(n), np.diff(bags.offsets)), rows))
            ids = np.concatenate((bags.ids, ids))
            values = np.concatenate((bags.values.astype(np.float64), values))
        order = np.argsort(rows, kind="stable")
        return cls(rows[order], ids[order], values[order], (n, n_bag_columns + m))

    def take(self, rows: Sequence[int] | np.ndarray) -> SparseRows:
        """Some of the rows, in the given order."""
        chosen = np.asarray(rows, np.int64)
        ends = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        sizes = np.diff(ends)[chosen]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        at = np.arange(starts[-1]) + np.repeat(ends[chosen] - starts[:-1], sizes)
        found = np.repeat(np.arange(len(chosen)), sizes)
        return SparseRows(found, self.ids[at], self.values[at], (len(chosen), self.shape[1]))

    def times(self, weights: Float[np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
        """X w."""
        return np.bincount(self.rows, self.values * weights[self.ids], self.shape[0])

    def transposed_times(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
        """Xᵀ w."""
        return np.bincount(self.ids, self.values * weights[self.rows], self.shape[1])

    @property
    def squares(self) -> Float[np.ndarray, " n"]:
        """The squared length of each row."""
        return np.bincount(self.rows, self.values**2, self.shape[0])

    def means(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
        """The mean of each column over weighted rows."""
        return self.transposed_times(weights / weights.sum())

    def scaled(self, factors: Float[np.ndarray, " n"]) -> SparseRows:
        """Each row times its factor."""
        return replace(self, values=self.values * factors[self.rows])

    def dense(self) -> Float[np.ndarray, "n d"]:
        """The matrix as an array."""
        table = np.zeros(self.shape)
        np.add.at(table, (self.rows, self.ids), self.values)
        return table

    def dots(self, other: SparseRows) -> Float[np.ndarray, "n m"]:
        """The dot products of all rows with all rows of another matrix, in blocks of bounded memory."""
        size = max(1, _AT_ONCE // max(1, self.shape[1]))
        ids, values = torch.from_numpy(other.ids), torch.from_numpy(other.values)
        starts = torch.from_numpy(np.searchsorted(other.rows, np.arange(other.shape[0])))
        blocks = []
        for low in range(0, self.shape[0], size):
            block = torch.from_numpy(self.take(np.arange(low, min(low + size, self.shape[0]))).dense())
            columns = block.T.contiguous()
            sums = F.embedding_bag(ids, columns, starts, mode="sum", per_sample_weights=values)
            blocks.append(sums.T.numpy())
        return np.concatenate(blocks) if blocks else np.zeros((0, other.shape[0]))


def gaussian_kernel(a: SparseRows, b: SparseRows, gamma: float) -> Float[np.ndarray, "n m"]:
    """exp(-γ |x - x'|²) of all pairs of rows."""
    distances = a.squares[:, None] + b.squares - 2 * a.dots(b)
    return np.exp(-gamma * np.maximum(distances, 0))


def weigh(bags: Features, idf: Float[np.ndarray, " d"]) -> Features:
    """Features times their inverse document frequency, with rows of length 1."""
    values = bags.values * idf[bags.ids]
    rows = np.repeat(np.arange(len(bags)), np.diff(bags.offsets))
    length = np.sqrt(np.bincount(rows, values**2, len(bags)))
    return Features(bags.ids, (values / np.maximum(length, 1e-300)[rows]).astype(np.float32), bags.offsets)


def inverse_document_frequency(
    bags: Features, n_features: int, weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " d"]:
    """1 + log((1 + n) / (1 + the number of texts with the feature)), as scikit-learn smooths it.

    A text of weight 2 counts twice.
    """
    counts = np.bincount(bags.ids, np.repeat(weights, np.diff(bags.offsets)), n_features)
    return 1 + np.log((1 + weights.sum()) / (1 + counts))


# --- solutions --------------------------------------------------------------------------------------------------------


DIRECT = 1000
"""Number of features up to which linear equations are solved directly."""
_TOLERANCE = 1e-10
_MAX_STEPS = 2000


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """Weights and bias, and whether the solver converged."""

    weights: Float[np.ndarray, " d"]
    bias: float
    converged: bool = True

    def predict(self, rows: SparseRows) -> Float[np.ndarray, " n"]:
        """The predicted value of each row."""
        return rows.times(self.weights) + self.bias


def solve_linear(
    rows: SparseRows, values: Float[np.ndarray, " n"], alpha: float, row_weights: Float[np.ndarray, " n"]
) -> LinearSolution:
    """The weights and the bias with the least Σ s (y - x·w - b)² + α |w|²; of minimum length if several have it.

    Direct: time O(n d² + d³). Otherwise each step takes time in the number of nonzero features.

    Args:
        rows: the features x of each example.
        values: its value y.
        alpha: the penalty.
        row_weights: its weight s.
    """
    means, middle = rows.means(row_weights), float(np.average(values, weights=row_weights))
    roots = np.sqrt(row_weights)
    if rows.shape[1] <= DIRECT:
        centered = (rows.dense() - means) * roots[:, None]
        weights, converged = _solve_directly(centered, roots * (values - middle), alpha), True
    else:
        weights, converged = _solve_by_steps(rows.scaled(roots), roots, means, roots * (values - middle), alpha)
    return LinearSolution(weights, middle - float(means @ weights), converged)


def _solve_directly(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], alpha: float) -> Float[np.ndarray, " d"]:
    if alpha == 0:
        return np.linalg.lstsq(x, y, rcond=None)[0]
    return np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T @ y)


def _solve_by_steps(
    rows: SparseRows,
    roots: Float[np.ndarray, " n"],
    means: Float[np.ndarray, " d"],
    y: Float[np.ndarray, " n"],
    alpha: float,
) -> tuple[Float[np.ndarray, " d"], bool]:
    """Conjugate gradients for least squares (Björck 1996, section 7.4), and whether they converged.

    The matrix is X - ``roots`` ``means``ᵀ.
    """
    weights = np.zeros(rows.shape[1])
    residual = y.copy()
    gradient = _transposed_times(rows, roots, means, residual)
    direction = gradient
    size = first = float(gradient @ gradient)
    for _ in range(_MAX_STEPS):
        if size <= _TOLERANCE**2 * first:
            return weights, True
        image = rows.times(direction) - roots * float(means @ direction)
        step = size / (float(image @ image) + alpha * float(direction @ direction))
        weights += step * direction
        residual -= step * image
        gradient = _transposed_times(rows, roots, means, residual) - alpha * weights
        before, size = size, float(gradient @ gradient)
        direction = gradient + (size / before) * direction
    return weights, False


def _transposed_times(rows: SparseRows, roots: np.ndarray, means: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(X - roots meansᵀ)ᵀ v."""
    return rows.transposed_times(values) - means * float(roots @ values)


def solve_kernel(
    kernel: Float[np.ndarray, "n n"],
    values: Float[np.ndarray, " n"],
    alpha: float,
    weights: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """The coefficients of weighted training examples, (K + α S⁻¹)⁻¹ (y - mean). Time O(n³)."""
    return np.linalg.solve(kernel + np.diag(alpha / weights), values - np.average(values, weights=weights))
