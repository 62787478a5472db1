"""Minimization of the loss of a picture by L-BFGS with line search, or by Adam.

The variables are pixels minus their usual mean, divided by their usual deviation, in the color directions of the target
(:func:`catena.niche.style.colors.color_scales`) and with high frequencies scaled down as in photographs. Steps in these
variables are of similar relative size, which saves about a third of the steps. Pixels are not clipped: clipping at each
step would make the loss rise and break the line search. Tested in tests/niche/style/test_minimize.py.
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
from catena.training.optimize import without_compiler
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


class Variables:
    """The linear map between a picture and the variables of its minimization.

    Args:
        like: a picture, which gives the size, the type and the device.
        colors: symmetric matrix from variables to colors; the identity if None.
    """

    def __init__(self, like: Float[Tensor, "1 3 _ _"], colors: Float[np.ndarray, "3 3"] | None) -> None:
        matrix = torch.eye(3, dtype=torch.float64) if colors is None else torch.as_tensor(colors)
        self.colors = (DEVIATION * matrix).to(like)
        self.inverse_colors = torch.linalg.inv(DEVIATION * matrix).to(like)
        self.size = (like.shape[-2], like.shape[-1])
        self.scales = frequency_scales(self.size).to(like)

    def from_picture(self, x: Float[Tensor, "1 3 height width"]) -> Float[Tensor, "1 3 height width"]:
        """The variables of a picture."""
        return self._scale(torch.einsum("ij,bjyx->biyx", self.inverse_colors, x - CENTER), 1 / self.scales)

    def to_picture(self, z: Float[Tensor, "1 3 height width"]) -> Float[Tensor, "1 3 height width"]:
        """The picture of some variables."""
        return self.gradient(z) + CENTER

    def gradient(self, gradient: Float[Tensor, "1 3 height width"]) -> Float[Tensor, "1 3 height width"]:
        """The gradient with respect to the variables, given the one with respect to the pixels.

        The map is symmetric, so this is the map itself without its constant.
        """
        return torch.einsum("ij,bjyx->biyx", self.colors, self._scale(gradient, self.scales))

    def _scale(self, x: Tensor, scales: Tensor) -> Tensor:
        return torch.fft.irfft2(torch.fft.rfft2(x) * scales, s=self.size)


def frequency_scales(size: tuple[int, int]) -> Float[Tensor, "height _"]:
    """1 / sqrt(frequency) for each frequency of a real Fourier transform, with the mean square 1."""
    rows, columns = torch.fft.fftfreq(size[0]), torch.fft.rfftfreq(size[1])
    frequency = torch.hypot(rows[:, None], columns).clamp(min=1 / max(size))
    scales = frequency.rsqrt()
    return scales / scales.square().mean().sqrt()


def minimize(
    objective: Objective, start: Float[Tensor, "1 3 height width"], how: Minimization
) -> Iterator[tuple[Float[Tensor, "1 3 height width"], StepLosses]]:
    """Yield the picture and its losses at the start and after each step; ends early where nothing is better."""
    return _minimize_lbfgs(objective, start, how) if how.optimizer == "lbfgs" else _minimize_adam(objective, start, how)


def _minimize_lbfgs(objective: Objective, start: Tensor, how: Minimization) -> Iterator[tuple[Tensor, StepLosses]]:
    seen: dict[float, StepLosses] = {}
    variables = Variables(start, how.colors)

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
    variables = Variables(start, how.colors)
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
