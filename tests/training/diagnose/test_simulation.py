"""The simulation against its closed form, and against derivatives that autograd takes."""

from __future__ import annotations

import math

import pytest
import torch

from catena.training.diagnose.simulation import ACTIVATIONS, matrix_with_largest, simulate


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("largest", [0.5, 1.0, 1.2])
def test_largest_eigenvalue_is_as_requested(largest: float) -> None:
    values = torch.linalg.eigvals(matrix_with_largest(largest, 6, seeded()))
    assert values.abs().max().item() == pytest.approx(largest, abs=1e-12)


@pytest.mark.parametrize("largest", [0.5, 1.0, 1.2])
def test_a_linear_recurrence_follows_the_powers_of_its_eigenvalues(largest: float) -> None:
    matrix = matrix_with_largest(largest, 4, seeded())
    values, directions = torch.linalg.eigh(matrix)
    shares = directions.T @ torch.full((4,), 0.5, dtype=torch.float64)
    found = simulate(matrix, "linear", 20)
    for k in (0, 1, 7, 20):
        assert found.states[k] == pytest.approx((values**k * shares).norm().item(), rel=1e-9)
        assert found.gradients[k] == pytest.approx(largest**k, rel=1e-9)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_gradients_are_autograds(activation: str) -> None:
    matrix = matrix_with_largest(1.1, 5, seeded(1))
    f, _ = ACTIVATIONS[activation]

    def run(h: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            h = f(matrix @ h)
        return h

    start = torch.full((5,), 5**-0.5, dtype=torch.float64)
    found = simulate(matrix, activation, 4)  # type: ignore[arg-type]
    assert found.states[4] == pytest.approx(run(start).norm().item(), rel=1e-12)
    jacobian = torch.autograd.functional.jacobian(run, start)
    assert found.gradients[4] == pytest.approx(torch.linalg.matrix_norm(jacobian, 2).item(), rel=1e-9)


def test_what_overflows_is_infinite_and_not_nan() -> None:
    found = simulate(matrix_with_largest(1e200, 3, seeded()), "linear", 4)
    assert found.gradients[-1] == math.inf
