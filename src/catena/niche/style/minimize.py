"""Minimization of the loss of a picture by L-BFGS with line search, or by Adam.

The variables are pixels minus their usual mean, divided by their usual deviation, in the color directions of the target
(:func:`catena.niche.style.colors.color_scales`). They are not clipped: clipping at each step would make the loss rise
and break the line search. Tested in tests/niche/style/test_minimize.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from catena.niche.style.objective import Objective, StepLosses
from catena.niche.style.random_filters import CENTER, DEVIATION
from catena.training.eager_optimizers import without_compiler
from catena.training.quasi_newton import QuasiNewton

OptimizerName = Literal["lbfgs", "adam"]
_HISTORY_BYTES = 1_000_000_000
"""Largest memory of the history of L-BFGS, which is shortened for large pictures, but not below 4 steps."""


@dataclass(frozen=True)
class Minimization:
    """How a loss is minimized.

    Args:
        optimizer: ``lbfgs`` with line search, or ``adam``.
        steps: largest number of steps.
        learning_rate: of Adam, in deviations of the pixels.
        history: number of past steps that L-BFGS stores.
        colors: symmetric matrix from variables to colors; the identity if None.
    """

    optimizer: OptimizerName = "lbfgs"
    steps: int = 200
    learning_rate: float = 0.05
    history: int = 20
    colors: Float[np.ndarray, "3 3"] | None = None


class _Variables:
    """The map between a picture and the variables of its minimization."""

    def __init__(self, like: Float[Tensor, "1 3 _ _"], colors: Float[np.ndarray, "3 3"] | None) -> None:
        matrix = torch.eye(3, dtype=torch.float64) if colors is None else torch.as_tensor(colors)
        self.forward = (DEVIATION * matrix).to(like)
        self.inverse = torch.linalg.inv(DEVIATION * matrix).to(like)

    def from_picture(self, x: Tensor) -> Tensor:
        return torch.einsum("ij,bjyx->biyx", self.inverse, x - CENTER)

    def to_picture(self, z: Tensor) -> Tensor:
        return torch.einsum("ij,bjyx->biyx", self.forward, z) + CENTER

    def gradient(self, gradient: Tensor) -> Tensor:
        """The gradient with respect to the variables, given the one with respect to the pixels."""
        return torch.einsum("ij,bjyx->biyx", self.forward.mT, gradient)


def minimize(
    objective: Objective, start: Float[Tensor, "1 3 height width"], how: Minimization
) -> Iterator[tuple[Float[Tensor, "1 3 height width"], StepLosses]]:
    """Yield the picture and its losses at the start and after each step; ends early where nothing is better."""
    return _minimize_lbfgs(objective, start, how) if how.optimizer == "lbfgs" else _minimize_adam(objective, start, how)


def _minimize_lbfgs(objective: Objective, start: Tensor, how: Minimization) -> Iterator[tuple[Tensor, StepLosses]]:
    seen: dict[float, StepLosses] = {}
    variables = _Variables(start, how.colors)

    def to_picture(point: Float64[np.ndarray, " n"]) -> Tensor:
        return variables.to_picture(torch.as_tensor(point).to(start).view_as(start))

    def evaluate(point: Float64[np.ndarray, " n"]) -> tuple[float, Float64[np.ndarray, " n"]]:
        losses, gradient = objective(to_picture(point))
        seen[losses.total] = losses
        return losses.total, _to_vector(variables.gradient(gradient))

    point = _to_vector(variables.from_picture(start))
    history = max(4, min(how.history, _HISTORY_BYTES // (2 * point.nbytes)))
    minimization = QuasiNewton(evaluate, point, memory=history)
    yield start, seen[minimization.objective]
    for step in range(1, how.steps + 1):
        seen.clear()
        if not minimization.step():
            return
        yield to_picture(minimization.point), replace(seen[minimization.value], step=step)


def _minimize_adam(objective: Objective, start: Tensor, how: Minimization) -> Iterator[tuple[Tensor, StepLosses]]:
    variables = _Variables(start, how.colors)
    z = variables.from_picture(start).requires_grad_()
    optimizer = without_compiler(torch.optim.Adam)([z], lr=how.learning_rate)
    losses, gradient = objective(start)
    yield start, losses
    for step in range(1, how.steps + 1):
        z.grad = variables.gradient(gradient)
        optimizer.step()
        x = variables.to_picture(z.detach())
        losses, gradient = objective(x)
        yield x, replace(losses, step=step)


def _to_vector(x: Tensor) -> Float64[np.ndarray, " n"]:
    return x.detach().double().cpu().numpy().ravel()
