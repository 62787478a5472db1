r"""The effect of a recurrence on a signal over many steps, by the largest eigenvalue of its matrix.

.. math::  h_k = f(W h_{k-1}) \qquad \frac{\partial h_k}{\partial h_0} = \prod_{i \le k} \mathrm{diag}(f'(z_i)) W

Without inputs and without f the norm of h_k is the norm of :math:`W^k h_0`: it explodes if the largest eigenvalue
is above 1 and vanishes if it is below. An activation bounds the state, but not its gradient
(Pascanu et al. 2013, section 2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

_ActivationName = Literal["linear", "tanh", "sigmoid", "relu"]

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "linear": (lambda z: z, torch.ones_like),
    "tanh": (torch.tanh, lambda z: 1 - torch.tanh(z) ** 2),
    "sigmoid": (torch.sigmoid, lambda z: torch.sigmoid(z) * (1 - torch.sigmoid(z))),
    "relu": (torch.relu, lambda z: (z > 0).to(z.dtype)),
}
"""Each activation with its derivative."""


@dataclass(frozen=True)
class Simulation:
    """Norms by step: ``states[k]`` is the norm of h_k, ``gradients[k]`` the largest singular value of ∂h_k/∂h_0."""

    states: list[float]
    gradients: list[float]


def simulate(matrix: Float[Tensor, "d d"], activation: _ActivationName = "linear", steps: int = 50) -> Simulation:
    """Run a recurrence without inputs from the uniform state of norm 1."""
    f, gradient = ACTIVATIONS[activation]
    matrix = matrix.to(torch.float64)
    d = matrix.shape[0]
    state = torch.full((d,), d**-0.5, dtype=torch.float64)
    jacobian = torch.eye(d, dtype=torch.float64)
    states, gradients = [float(state.norm())], [1.0]
    for _ in range(steps):
        z = matrix @ state
        state, jacobian = f(z), gradient(z)[:, None] * (matrix @ jacobian)
        states.append(float(state.norm()))
        gradients.append(float(torch.linalg.matrix_norm(jacobian, 2)) if jacobian.isfinite().all() else torch.inf)
    return Simulation(states, gradients)


def matrix_with_largest(largest: float, d: int, generator: torch.Generator) -> Float[Tensor, "d d"]:
    """A random symmetric matrix with eigenvalues evenly spaced from -``largest`` to ``largest``."""
    directions, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    values = torch.linspace(-largest, largest, d, dtype=torch.float64) if d > 1 else torch.tensor([largest]).double()
    return (directions * values) @ directions.T
