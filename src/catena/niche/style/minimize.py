"""Minimization of the loss of a picture by L-BFGS with line search, or by Adam.

The variables are pixels minus their usual mean, divided by their usual deviation, and are not clipped: clipping at each
step would make the loss rise and break the line search.
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
    """

    optimizer: OptimizerName = "lbfgs"
    steps: int = 200
    learning_rate: float = 0.05
    history: int = 20


def minimize(
    objective: Objective, start: Float[Tensor, "1 3 height width"], how: Minimization
) -> Iterator[tuple[Float[Tensor, "1 3 height width"], StepLosses]]:
    """Yield the picture and its losses at the start and after each step; ends early where nothing is better."""
    return _minimize_lbfgs(objective, start, how) if how.optimizer == "lbfgs" else _minimize_adam(objective, start, how)


def _minimize_lbfgs(objective: Objective, start: Tensor, how: Minimization) -> Iterator[tuple[Tensor, StepLosses]]:
    seen: dict[float, StepLosses] = {}

    def evaluate(point: Float64[np.ndarray, " n"]) -> tuple[float, Float64[np.ndarray, " n"]]:
        losses, gradient = objective(_to_picture(point, start))
        seen[losses.total] = losses
        return losses.total, _to_vector(DEVIATION * gradient)

    point = _to_vector((start - CENTER) / DEVIATION)
    history = max(4, min(how.history, _HISTORY_BYTES // (2 * point.nbytes)))
    minimization = QuasiNewton(evaluate, point, memory=history)
    yield start, seen[minimization.objective]
    for step in range(1, how.steps + 1):
        seen.clear()
        if not minimization.step():
            return
        yield _to_picture(minimization.point, start), replace(seen[minimization.value], step=step)


def _minimize_adam(objective: Objective, start: Tensor, how: Minimization) -> Iterator[tuple[Tensor, StepLosses]]:
    z = ((start - CENTER) / DEVIATION).requires_grad_()
    optimizer = without_compiler(torch.optim.Adam)([z], lr=how.learning_rate)
    losses, gradient = objective(start)
    yield start, losses
    for step in range(1, how.steps + 1):
        z.grad = DEVIATION * gradient
        optimizer.step()
        x = z.detach() * DEVIATION + CENTER
        losses, gradient = objective(x)
        yield x, replace(losses, step=step)


def _to_vector(x: Tensor) -> Float64[np.ndarray, " n"]:
    return x.detach().double().cpu().numpy().ravel()


def _to_picture(point: Float64[np.ndarray, " n"], like: Tensor) -> Tensor:
    return torch.as_tensor(point).to(like).view_as(like) * DEVIATION + CENTER
