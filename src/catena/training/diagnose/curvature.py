r"""Curvature of the loss at the current weights, from products of the Hessian H with vectors.

.. math::  f(\theta - \epsilon g) \approx f(\theta) - \epsilon g^\top g + \tfrac12 \epsilon^2 g^\top H g
           \qquad \epsilon^* = \frac{g^\top g}{g^\top H g}

ε* is the optimal step size of plain gradient descent if the loss curves upward along its gradient
(Goodfellow et al. 2016, equations 4.8 to 4.10). The extreme eigenvalues of H show whether the point is a local minimum,
and how much the curvature differs between directions. They are computed by the Lanczos method (Golub & Van Loan 2013,
section 10.1), which costs one product with H, about two backward passes, per iteration. H itself is never built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_MOST_KEPT = 2**28
"""Maximum number of values in a Lanczos basis that is kept for reorthogonalization."""

_Flat = Float[Tensor, "n"]


@dataclass(frozen=True)
class Eigenvalue:
    """An approximate eigenvalue: H has an eigenvalue within ``error`` of ``value``."""

    value: float
    error: float


@dataclass(frozen=True)
class Curvature:
    """Second-order properties of the loss at a point."""

    loss: float
    gradient_norm: float
    along_gradient: float
    """gᵀHg / gᵀg: the second derivative in the direction of the gradient."""
    largest: Eigenvalue
    smallest: Eigenvalue

    @property
    def optimal_step(self) -> float | None:
        """The optimal step size of plain gradient descent. None if the loss does not curve upward."""
        return 1 / self.along_gradient if self.along_gradient > 0 else None


def measure_curvature(
    loss: Callable[[], Float[Tensor, ""]],
    parameters: Sequence[Tensor],
    *,
    iterations: int = 30,
    generator: torch.Generator | None = None,
) -> Curvature:
    """The gradient norm, the curvature along the gradient, and the extreme eigenvalues of the Hessian.

    Args:
        loss: computes the loss at the current parameters. It must be deterministic, so dropout must be off.
        parameters: the parameters of the Hessian. The loss must be twice differentiable in each of them (a parameter
            that it does not depend on has zero rows).
        iterations: of the Lanczos method. With one per parameter, the eigenvalues are exact.
        generator: samples the first direction.

    Time O(iterations) backward passes; memory O(iterations n) up to a limit, then O(n).
    """
    with _twice_differentiable():
        value = loss()
        gradients = torch.autograd.grad(value, parameters, create_graph=True, materialize_grads=True)
        gradient = _flat(gradients)

        def product(vector: _Flat) -> _Flat:
            if not gradient.requires_grad:
                return torch.zeros_like(vector)
            rows = torch.autograd.grad(gradient, parameters, vector, retain_graph=True, materialize_grads=True)
            return _flat(rows).detach()

        g = gradient.detach()
        square = float(g @ g)
        along = float(g @ product(g)) / square if square > 0 else 0.0
        smallest, largest = extreme_eigenvalues(product, torch.empty_like(g), iterations, generator)
    return Curvature(float(value.detach()), math.sqrt(square), along, largest, smallest)


def extreme_eigenvalues(
    product: Callable[[_Flat], _Flat], like: _Flat, iterations: int, generator: torch.Generator | None = None
) -> tuple[Eigenvalue, Eigenvalue]:
    """The smallest and the largest eigenvalue of a symmetric matrix given by its matrix-vector product."""
    n = like.numel()
    keep = n * min(iterations, n) <= _MOST_KEPT
    vector = torch.randn(n, generator=generator, dtype=torch.float64).to(like)
    vector /= vector.norm()
    basis: list[_Flat] = []
    diagonal: list[float] = []
    beside: list[float] = []
    before, b = torch.zeros_like(vector), 0.0
    for _ in range(min(iterations, n)):
        if keep:
            basis.append(vector)
        image = product(vector) - b * before
        a = float(vector @ image)
        image -= a * vector
        for _ in range(2 if keep else 0):  # the second pass removes what rounding left
            kept = torch.stack(basis)
            image -= kept.T @ (kept @ image)
        diagonal.append(a)
        b = float(image.norm())
        beside.append(b)
        if b <= 1e-10 * max(1e-30, *map(abs, diagonal), *beside):  # invariant subspace: the eigenvalues are exact
            break
        before, vector = vector, image / b
    return _ritz_ends(diagonal, beside, torch.finfo(like.dtype).eps)


def _ritz_ends(diagonal: list[float], beside: list[float], rounding: float) -> tuple[Eigenvalue, Eigenvalue]:
    small = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if len(diagonal) > 1:
        off = torch.diag(torch.tensor(beside[:-1], dtype=torch.float64), 1)
        small = small + off + off.T
    values, vectors = torch.linalg.eigh(small)
    errors = abs(beside[-1]) * vectors[-1].abs() + rounding * values.abs().max()
    return tuple(Eigenvalue(float(values[i]), float(errors[i])) for i in (0, -1))  # type: ignore[return-value]


@contextmanager
def _twice_differentiable() -> Iterator[None]:
    """Context without torch's fused attention and recurrences, which have no second derivative."""
    libraries: tuple[Any, ...] = torch.backends.mkldnn, torch.backends.cudnn
    enabled = [library.enabled for library in libraries]
    try:
        for library in libraries:
            library.enabled = False
        with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            yield
    finally:
        for library, was in zip(libraries, enabled, strict=True):
            library.enabled = was


def _flat(parts: Sequence[Tensor]) -> _Flat:
    return torch.cat([part.reshape(-1) for part in parts])
