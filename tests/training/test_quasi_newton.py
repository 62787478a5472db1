"""Minima known in closed form or from scipy, with and without an L1 penalty."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from catena.errors import DivergedError
from catena.training.quasi_newton import QuasiNewton


def run(search: QuasiNewton, steps: int = 500) -> QuasiNewton:
    for _ in range(steps):
        if search.is_at_rest or not search.step():
            return search
    raise AssertionError("it did not converge")


def rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
    a, b = x[:-1], x[1:]
    gradient = np.zeros_like(x)
    gradient[:-1] += -400 * a * (b - a**2) - 2 * (1 - a)
    gradient[1:] += 200 * (b - a**2)
    return float((100 * (b - a**2) ** 2 + (1 - a) ** 2).sum()), gradient


def logistic(seed: int, n: int = 60, d: int = 12):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * rng.uniform(0.1, 5, size=d)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)

    def function(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = y * (x @ w)
        return float(np.logaddexp(0, -z).sum()), -(x * (y / (1 + np.exp(z)))[:, None]).sum(0)

    return function


def test_rosenbrock_converges_to_one() -> None:
    found = run(QuasiNewton(rosenbrock, np.full(6, -1.2)))
    assert found.point == pytest.approx(np.ones(6), abs=1e-4)


def test_quadratic_converges_to_solution() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(20, 20))
    a, b = root @ root.T + 0.1 * np.eye(20), rng.normal(size=20)
    found = run(QuasiNewton(lambda x: (float(x @ a @ x / 2 - b @ x), a @ x - b), np.zeros(20)))
    assert found.point == pytest.approx(np.linalg.solve(a, b), abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_logistic_regression_equals_scipy(seed: int) -> None:
    smooth = logistic(seed)

    def function(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = smooth(w)
        return value + 0.3 * float(w @ w), gradient + 0.6 * w

    found = run(QuasiNewton(function, np.zeros(12)))
    theirs = minimize(function, np.zeros(12), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-15})
    assert found.objective == pytest.approx(theirs.fun, abs=1e-8)
    assert found.point == pytest.approx(theirs.x, abs=1e-4)


def test_l1_makes_zeros_where_gradient_is_small() -> None:
    """The minimum of Σ (x - c)²/2 + l1 |x| is c moved toward 0 by l1, at most to 0."""
    c = np.array([3.0, -2.0, 0.4, -0.5, 0.0, 0.51])
    found = run(QuasiNewton(lambda x: (float(((x - c) ** 2).sum() / 2), x - c), np.zeros(6), l1=0.5))
    assert found.point == pytest.approx([2.5, -1.5, 0.0, 0.0, 0.0, 0.01], abs=1e-5)
    assert (found.point == 0).tolist() == [False, False, True, True, True, False]


@pytest.mark.parametrize("seed", range(4))
def test_l1_equals_smooth_problem_with_doubled_weights(seed: int) -> None:
    function, l1 = logistic(seed), 2.0

    def doubled(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(v[:12] - v[12:])
        return value + l1 * float(v.sum()), np.concatenate((gradient + l1, l1 - gradient))

    theirs = minimize(
        doubled,
        np.zeros(24),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * 24,
        options={"gtol": 1e-9, "ftol": 1e-15},
    )
    found = run(QuasiNewton(function, np.zeros(12), l1=l1))
    assert found.objective == pytest.approx(theirs.fun, abs=1e-5)
    expected = theirs.x[:12] - theirs.x[12:]
    assert found.point == pytest.approx(expected, abs=1e-2)
    assert (np.abs(expected) < 1e-6).any(), "the case has zeros"
    assert ((found.point == 0) == (np.abs(expected) < 1e-6)).all()


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_objective_decreases_at_every_step(l1: float) -> None:
    search = QuasiNewton(logistic(5), np.ones(12), l1=l1)
    values = [search.objective]
    for _ in range(15):
        search.step()
        values.append(search.objective)
    assert all(b <= a for a, b in itertools.pairwise(values))


def test_direction_equals_bfgs_matrix() -> None:
    """H = (I - s yᵀ/sᵀy) H (I - y sᵀ/sᵀy) + s sᵀ/sᵀy for each step s and change y (Nocedal & Wright 2006, 6.17)."""
    search = QuasiNewton(rosenbrock, np.array([-1.2, 1.0, 0.5, 2.0]), memory=3)
    for _ in range(7):
        search.step()
    assert len(search.moves) == 3
    s, y = search.moves[-1], search.changes[-1]
    matrix = np.eye(4) * (s @ y) / (y @ y)
    for s, y in zip(search.moves, search.changes, strict=True):
        left = np.eye(4) - np.outer(s, y) / (s @ y)
        matrix = left @ matrix @ left.T + np.outer(s, s) / (s @ y)
    gradient = np.array([1.0, -2.0, 0.5, 3.0])
    assert search._direction(gradient) == pytest.approx(-matrix @ gradient)


@pytest.mark.parametrize("seed", range(3))
def test_l1_step_never_ascends(seed: int) -> None:
    search = QuasiNewton(logistic(seed), np.zeros(12), l1=1.0)
    for _ in range(12):
        point, gradient = search.point, search.steepest
        if not search.step():
            break
        assert ((search.point - point) * gradient <= 1e-15).all()


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_restored_search_continues_exactly(l1: float) -> None:
    whole = QuasiNewton(logistic(6), np.zeros(12), l1=l1)
    for _ in range(9):
        whole.step()
    half = QuasiNewton(logistic(6), np.zeros(12), l1=l1)
    for _ in range(4):
        half.step()
    other = QuasiNewton(logistic(6), np.full(12, 7.0), l1=l1)
    other.restore({name: np.array(x) for name, x in half.arrays().items()})
    for _ in range(5):
        other.step()
    assert np.array_equal(other.point, whole.point)
    assert (other.iteration, other.evaluations) == (whole.iteration, whole.evaluations)


def test_number_of_evaluations_is_small() -> None:
    found = run(QuasiNewton(logistic(7), np.zeros(12), l1=0.1))
    assert found.evaluations < 3 * found.iteration + 5


def test_initial_nan_raises_error() -> None:
    with pytest.raises(DivergedError, match="is nan at the initial point"):
        QuasiNewton(lambda x: (float("nan"), x), np.zeros(3)).step()


def test_infinite_values_shorten_the_step() -> None:
    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        inside = 0.3 - x[0]
        return (float(-np.log(inside) - 5 * x[0]), np.array([1 / inside - 5])) if inside > 0 else (np.inf, np.zeros(1))

    found = run(QuasiNewton(function, np.zeros(1)))
    assert found.point == pytest.approx([0.1], abs=1e-4)
