"""Both optimizers: their variables do not change the loss, and they find the minimum of a content loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.niche.style.losses import gram_matrix
from catena.niche.style.minimize import Minimization, OptimizerName, minimize
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


def test_first_adam_step_moves_each_variable_by_the_learning_rate() -> None:
    objective, _, start = build()
    (_, _), (moved, losses) = minimize(objective, start, Minimization("adam", 1, 0.01))
    torch.testing.assert_close((moved - start).abs(), torch.full_like(start, 0.01 * 0.225), atol=1e-4, rtol=0)
    assert losses.step == 1
