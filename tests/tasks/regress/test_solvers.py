"""Closed forms by numpy: the normal equations, the eigenvalues of ridge, minimum length, kernel ridge."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from catena.tasks.regress import features as solvers
from catena.tasks.regress.features import SparseRows, solve_kernel, solve_linear
from tests.tasks.regress.test_features import make_rows

WAYS = pytest.mark.parametrize("direct", [10**6, 0], ids=["direct", "conjugate-gradients"])


def make_problem(n: int, d: int) -> tuple[SparseRows, np.ndarray, np.ndarray]:
    rows, x = make_rows(n, d - 2, 2)
    return rows, x, x @ np.linspace(-1, 1, d) + 5 + np.random.default_rng(7).normal(size=n)


@WAYS
@pytest.mark.parametrize("alpha", [0.0, 0.3, 20.0])
def test_weights_solve_the_normal_equations(direct: int, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a column of ones for the bias, which has no penalty."""
    monkeypatch.setattr(solvers, "DIRECT", direct)
    rows, x, y = make_problem(40, 6)
    ones = np.concatenate((x, np.ones((40, 1))), axis=1)
    penalty = alpha * np.diag([1.0] * 6 + [0.0])
    expected = np.linalg.inv(ones.T @ ones + penalty) @ ones.T @ y
    found = solve_linear(rows, y, alpha, np.ones(len(y)))
    assert found.converged
    assert np.allclose([*found.weights, found.bias], expected, atol=1e-7)
    assert np.allclose(found.predict(rows), ones @ expected, atol=1e-7)


@WAYS
def test_ridge_equals_scikit_learn(direct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "DIRECT", direct)
    rows, x, y = make_problem(12, 30)
    peer = Ridge(alpha=0.7).fit(x, y)
    assert np.allclose(solve_linear(rows, y, 0.7, np.ones(len(y))).predict(rows), peer.predict(x), atol=1e-7)


@WAYS
def test_weighted_ridge_equals_scikit_learn(direct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "DIRECT", direct)
    rows, x, y = make_problem(12, 30)
    weights = np.random.default_rng(3).uniform(0.1, 3, 12)
    peer = Ridge(alpha=0.7).fit(x, y, sample_weight=weights)
    assert np.allclose(solve_linear(rows, y, 0.7, weights).predict(rows), peer.predict(x), atol=1e-7)


@WAYS
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_weights_of_rows_equal_repeated_rows(direct: int, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "DIRECT", direct)
    rows, _, y = make_problem(40, 6)
    times = 1 + np.arange(40) % 3
    index = np.repeat(np.arange(40), times)
    repeated = solve_linear(rows.take(index), y[index], alpha, np.ones(len(index)))
    weighted = solve_linear(rows, y, alpha, times.astype(float))
    assert np.allclose([*weighted.weights, weighted.bias], [*repeated.weights, repeated.bias], atol=1e-7)


def test_ridge_rescales_the_directions_of_the_eigenvectors() -> None:
    """Goodfellow et al. (2016), equation 7.13: by λ / (λ + α)."""
    rows, x, y = make_problem(40, 6)
    centered = x - x.mean(0)
    eigenvalues, vectors = np.linalg.eigh(centered.T @ centered)
    free = vectors.T @ solve_linear(rows, y, 0.0, np.ones(len(y))).weights
    found = vectors.T @ solve_linear(rows, y, 3.0, np.ones(len(y))).weights
    assert np.allclose(found, eigenvalues / (eigenvalues + 3.0) * free, atol=1e-9)


@WAYS
def test_least_squares_has_minimum_length(direct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "DIRECT", direct)
    rows, x, y = make_problem(8, 20)
    expected = np.linalg.pinv(x - x.mean(0)) @ (y - y.mean())
    found = solve_linear(rows, y, 0.0, np.ones(len(y)))
    assert np.allclose(found.weights, expected, atol=1e-6)
    assert np.allclose(found.predict(rows), y, atol=1e-6)


def test_too_few_steps_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "DIRECT", 0)
    monkeypatch.setattr(solvers, "_MAX_STEPS", 2)
    rows, _, y = make_problem(40, 6)
    assert not solve_linear(rows, y, 0.1, np.ones(len(y))).converged


def test_kernel_weights_equal_their_closed_form_and_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(15, 3)), rng.normal(2.0, 1.0, 15)
    kernel = np.exp(-0.4 * ((x[:, None] - x[None]) ** 2).sum(-1))
    found = solve_kernel(kernel, y, 0.2, np.ones(15))
    assert np.allclose(found, np.linalg.inv(kernel + 0.2 * np.eye(15)) @ (y - y.mean()))
    peer = KernelRidge(alpha=0.2, kernel="rbf", gamma=0.4).fit(x, y - y.mean())
    assert np.allclose(kernel @ found, peer.predict(x))


def test_weights_of_examples_of_a_kernel_equal_repeated_examples() -> None:
    rng = np.random.default_rng(0)
    x, y, times = rng.normal(size=(15, 3)), rng.normal(2.0, 1.0, 15), 1 + np.arange(15) % 3
    index = np.repeat(np.arange(15), times)
    kernel = np.exp(-0.4 * ((x[:, None] - x[None]) ** 2).sum(-1))
    repeated = solve_kernel(kernel[np.ix_(index, index)], y[index], 0.2, np.ones(len(index)))
    weighted = solve_kernel(kernel, y, 0.2, times.astype(float))
    assert np.allclose(kernel @ weighted, kernel[:, index] @ repeated)
