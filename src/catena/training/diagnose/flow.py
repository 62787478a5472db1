r"""How gradients flow back in time through a causal encoder, and the effect of each recurrent layer.

.. math::  \frac{\partial L_t}{\partial s_{t-k}} =
           \frac{\partial L_t}{\partial s_t} \prod_{i=t-k+1}^{t} \frac{\partial s_i}{\partial s_{i-1}}

L_t is the loss of the last position only, s_i the state of a layer after position i. If the norms shrink
geometrically with k, the gradient vanishes: nothing is learned from the distant past. If they grow, it explodes (Bengio
et al. 1994; Pascanu et al. 2013). The input is vectors, so this module is independent of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from catena.encoders.causal import CausalEncoder
from catena.encoders.cells import CellState, Recurrence

_NEAR_AN_END = 0.05
"""A gate is closed below this value and open above 1 minus this value."""
_SQUARINGS = 16


@dataclass(frozen=True)
class Gate:
    """The fractions of a gate's values, over positions and units, that are closed (near 0) and open (near 1)."""

    closed: float
    open: float


@dataclass(frozen=True)
class LayerFlow:
    """Measurements of one recurrent layer.

    Args:
        gradients: ``gradients[k]`` is the norm of ∂L_t/∂s_{t-k}, the mean over the sequences.
        radii: the spectral radius of ∂s_i/∂s_{i-1} at some positions i of the first sequence.
        gates: by name. For units without gates, ``state`` has the fractions near the ends of the activation's range.
    """

    gradients: list[float]
    radii: list[float]
    gates: dict[str, Gate]


@dataclass(frozen=True)
class GradientFlow:
    """Norms of gradients: ``inputs[k]`` is the norm of ∂L_t/∂x_{t-k}. Recurrent encoders have ``layers``."""

    inputs: list[float]
    layers: list[LayerFlow]


@dataclass(frozen=True)
class _Step:
    x: Float[Tensor, "b d_in"]
    before: CellState
    after: Float[Tensor, "b n"]


def measure_flow(
    encoder: CausalEncoder,
    x: Float[Tensor, "b t d_in"],
    loss: Callable[[Float[Tensor, "b d_out"]], Float[Tensor, ""]],
    *,
    looks: int = 3,
) -> GradientFlow:
    """Run the encoder and backpropagate from the loss of the last position.

    Args:
        encoder: run step by step if it is recurrent.
        x: inputs of the encoder, without padding.
        loss: the **sum** over the sequences of the loss of the vector at the last position.
        looks: number of positions at which the Jacobian of each layer is computed.

    Time O(t) steps and one backward pass. Each Jacobian costs one step with a batch of n, the size of the layer's
    state, and O(n³).
    """
    encoder.check_causal()
    recurrences = [module for module in encoder.modules() if isinstance(module, Recurrence)]
    x = x.detach().requires_grad_()
    # cuDNN's recurrences do not support a backward pass in evaluation mode.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), _watched(recurrences) as seen:
        state = encoder.begin(x.shape[0], x.device, x.dtype)
        # Caches of other encoders keep no gradient from step to step, so these read the whole sequence in one pass.
        for chunk in x.split(1 if recurrences else x.shape[1], dim=1):
            y, state = encoder.continue_(chunk, state)
        states = [step.after for steps in seen.values() for step in steps]
        by_input = torch.autograd.grad(loss(y[:, -1]), [x, *states], materialize_grads=True)
    norms = by_input[0].norm(dim=-1).mean(dim=0).flip(0)
    by_state = iter(by_input[1:])
    layers = []
    for recurrence, steps in seen.items():
        gradients = [float(next(by_state).norm(dim=-1).mean()) for _ in steps]
        layers.append(_layer(recurrence, steps, gradients[::-1], looks))
    return GradientFlow([float(norm) for norm in norms], layers)


def decay(gradients: list[float]) -> float | None:
    """The factor by which a gradient changes per step back in time, from a line fitted to the logarithms.

    None if there are too few values to fit; 0 if the gradient becomes zero.
    """
    points = [(k, math.log(norm)) for k, norm in enumerate(gradients) if norm > 0 and math.isfinite(norm)]
    if len(points) < 2:
        return 0.0 if len(gradients) > 1 and points else None
    middle = sum(k for k, _ in points) / len(points), sum(value for _, value in points) / len(points)
    spread = sum((k - middle[0]) ** 2 for k, _ in points)
    return math.exp(sum((k - middle[0]) * (value - middle[1]) for k, value in points) / spread)


def jacobian(recurrence: Recurrence, x: Float[Tensor, " d_in"], before: CellState) -> Float[Tensor, "n n"]:
    """The Jacobian of one step: ``[i, j]`` is ∂(new state i)/∂(old state j).

    Args:
        recurrence: the recurrent layer.
        x: its input.
        before: the old state of one sequence; each part has shape ``d``.
    """
    sizes = [part.shape[0] for part in before]
    n = sum(sizes)
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        # One identical row for each component of the new state: their gradients are the rows of the Jacobian.
        start = torch.cat(before).detach().expand(n, n).clone().requires_grad_()
        _, after = recurrence(x.detach().expand(1, n, -1), tuple(part.contiguous() for part in start.split(sizes, 1)))
        (rows,) = torch.autograd.grad(torch.cat(after, dim=1), start, torch.eye(n, dtype=x.dtype, device=x.device))
    return rows


def spectral_radius(matrix: Float[Tensor, "n n"]) -> float:
    r"""The largest magnitude of an eigenvalue: :math:`\lim_k \|A^k\|^{1/k}` (Gelfand), by repeated squaring."""
    power, log_scale = matrix.to(torch.float64), 0.0
    for squared in range(_SQUARINGS + 1):
        size = float(power.norm())
        if size == 0 or not math.isfinite(size):
            return size
        power, log_scale = power / size, log_scale + math.log(size) / 2**squared
        power = power @ power
    return math.exp(log_scale)


@contextmanager
def _watched(recurrences: list[Recurrence]) -> Iterator[dict[Recurrence, list[_Step]]]:
    seen: dict[Recurrence, list[_Step]] = {recurrence: [] for recurrence in recurrences}

    def watch(
        recurrence: Recurrence, given: tuple[Tensor, CellState], found: tuple[Tensor, CellState]
    ) -> tuple[Tensor, CellState]:
        # h is a function of c, but both are one state: from here on they are read as parts of one vector.
        after = torch.cat(found[1], dim=-1)
        seen[recurrence].append(_Step(given[0][0], given[1], after))
        parts = after.split(recurrence.d, dim=-1)
        return parts[0][None], parts

    hooks = [recurrence.register_forward_hook(watch) for recurrence in recurrences]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _layer(recurrence: Recurrence, steps: list[_Step], gradients: list[float], looks: int) -> LayerFlow:
    places = sorted({round(i) for i in torch.linspace(0, len(steps) - 1, looks).tolist()})
    radii = []
    for place in places:
        step = steps[place]
        first = tuple(part[0] for part in step.before)
        radii.append(spectral_radius(jacobian(recurrence, step.x[0], first)))
    with torch.no_grad():
        together = [torch.cat(parts) for parts in zip(*(step.before for step in steps), strict=True)]
        values = recurrence.gates(torch.cat([step.x for step in steps]), tuple(together))
    return LayerFlow(gradients, radii, {name: _shares(value) for name, value in values.items()})


def _shares(values: Tensor) -> Gate:
    return Gate(float((values < _NEAR_AN_END).float().mean()), float((values > 1 - _NEAR_AN_END).float().mean()))
