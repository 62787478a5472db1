r"""Least squares, ridge and kernel ridge regression by their closed forms.

With centered features and values,

.. math::  w = (X^T X + \alpha I)^{-1} X^T y

has an unpenalized bias. Up to :data:`DIRECT` features the equations are solved directly; with more, by conjugate
gradients, which never form a matrix. Without a penalty the solution of minimum length is returned. Kernel ridge
regression is :math:`f(x) = \bar y + \sum_i a_i k(x, x_i)` with :math:`a = (K + \alpha I)^{-1} (y - \bar y)`.

Goodfellow et al. (2016), sections 5.1.4, 5.7.2 and 7.1.1. Tested in tests/tasks/regress/test_solvers.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from catena.tasks.regress.features import SparseRows

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


def solve_linear(rows: SparseRows, values: Float[np.ndarray, " n"], alpha: float) -> LinearSolution:
    """The weights and the bias with the least Σ(y - x·w - b)² + α |w|²; of minimum length if several have it.

    Direct: time O(n d² + d³). Otherwise each step takes time in the number of nonzero features.
    """
    means, middle = rows.means(), float(values.mean())
    if rows.shape[1] <= DIRECT:
        weights, converged = _solve_directly(rows.dense() - means, values - middle, alpha), True
    else:
        weights, converged = _solve_by_steps(rows, means, values - middle, alpha)
    return LinearSolution(weights, middle - float(means @ weights), converged)


def _solve_directly(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], alpha: float) -> Float[np.ndarray, " d"]:
    if alpha == 0:
        return np.linalg.lstsq(x, y, rcond=None)[0]
    return np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T @ y)


def _solve_by_steps(
    rows: SparseRows, means: Float[np.ndarray, " d"], y: Float[np.ndarray, " n"], alpha: float
) -> tuple[Float[np.ndarray, " d"], bool]:
    """Conjugate gradients for least squares (Björck 1996, section 7.4), and whether they converged."""
    weights = np.zeros(rows.shape[1])
    residual = y.copy()
    gradient = _transposed_times(rows, means, residual)
    direction = gradient
    size = first = float(gradient @ gradient)
    for _ in range(_MAX_STEPS):
        if size <= _TOLERANCE**2 * first:
            return weights, True
        image = rows.times(direction) - float(means @ direction)
        step = size / (float(image @ image) + alpha * float(direction @ direction))
        weights += step * direction
        residual -= step * image
        gradient = _transposed_times(rows, means, residual) - alpha * weights
        before, size = size, float(gradient @ gradient)
        direction = gradient + (size / before) * direction
    return weights, False


def _transposed_times(rows: SparseRows, means: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(X - mean)ᵀ v."""
    return rows.transposed_times(values) - means * values.sum()


def solve_kernel(
    kernel: Float[np.ndarray, "n n"], values: Float[np.ndarray, " n"], alpha: float
) -> Float[np.ndarray, " n"]:
    """The weights of the training examples, (K + α I)⁻¹ (y - mean). Time O(n³)."""
    return np.linalg.solve(kernel + alpha * np.eye(len(kernel)), values - values.mean())
