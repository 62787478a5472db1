"""Both optimizers: their variables do not change the loss, and they find the minimum of a content loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.niche.style.losses import gram_matrix
from catena.niche.style.minimize import Minimization, OptimizerName, Variables, frequency_scales, minimize
from catena.niche.style.objective import LossWeights, Objective
from catena.niche.style.random_filters import RandomFilters

COLORS = np.array([[0.8, 0.1, 0.0], [0.1, 0.6, 0.2], [0.0, 0.2, 0.5]])


def build() -> tuple[Objective, Tensor, Tensor]:
    """An objective with the minimum at a known picture, that picture, and another one to start with."""
    generator = torch.Generator().manual_seed(0)
    wanted, start = torch.rand(2, 1, 3, 12, 12, generator=generator, dtype=torch.float64)
    network = RandomFilters((3,), n_filters=60).double()
    maps = network(wanted, ["random3"])
    weights = LossWeights({"random3": 1.0}, style=0.0, content=1.0)
    return Objective(network, {"random3": gram_matrix(maps["random3"][0])}, maps, weights), wanted, start


@pytest.mark.parametrize(("optimizer", "steps", "bound"), [("lbfgs", 60, 1e-4), ("adam", 150, 0.03)])
@pytest.mark.parametrize("colors", [None, COLORS])
def test_picture_converges_to_the_minimum_in_any_variables(
    optimizer: OptimizerName, steps: int, bound: float, colors: np.ndarray | None
) -> None:
    objective, wanted, start = build()
    pictures = list(minimize(objective, start, Minimization(optimizer, steps, 0.1, 20, colors)))
    last, losses = pictures[-1]
    torch.testing.assert_close(pictures[0][0], start, atol=1e-12, rtol=0)
    assert (last - wanted).abs().max() < 10 * bound
    assert losses.total < bound
    assert objective(last)[0].total == pytest.approx(losses.total, rel=1e-6)


@pytest.mark.parametrize("size", [(12, 12), (7, 10), (9, 5)])
def test_variables_are_a_symmetric_invertible_map(size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    x, u, v = torch.rand(3, 1, 3, *size, generator=generator, dtype=torch.float64)
    variables = Variables(x, COLORS)
    torch.testing.assert_close(variables.to_picture(variables.from_picture(x)), x, atol=1e-12, rtol=0)
    moved = (variables.to_picture(u) - variables.to_picture(torch.zeros_like(u))) * v
    torch.testing.assert_close(moved.sum(), (u * variables.gradient(v)).sum())


def test_scales_fall_with_the_root_of_the_frequency() -> None:
    scales = frequency_scales((8, 8))
    assert scales.square().mean().item() == pytest.approx(1)
    assert scales[0, 4] / scales[0, 1] == pytest.approx(0.5)
    assert scales[2, 0] == scales[6, 0] == scales[0, 2]


def test_adam_counts_steps_and_moves_the_picture() -> None:
    objective, _, start = build()
    (_, before), (moved, losses) = minimize(objective, start, Minimization("adam", 1, 0.01))
    assert (before.step, losses.step) == (0, 1)
    assert 0 < (moved - start).abs().mean() < 0.01
