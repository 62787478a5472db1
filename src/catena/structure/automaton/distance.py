r"""Sums over all paths of a machine, exact also where there are infinitely many.

.. math::  d(q) = \bigoplus_{\pi\,:\,\to q} \lambda(p_\pi) \otimes w(\pi),
    \qquad  W^* = I \oplus W \oplus W^2 \oplus \dots

Strongly connected components are done in topological order. Inside one with cycles, Lehmann's elimination
(Lehmann 1977) gives the closure :math:`W^*` by the closure of single elements. In the tropical semiring it is
the algorithm of Floyd and Warshall, in the real one it inverts :math:`I - W`. Nothing is iterated to a
tolerance, and a sum without a value raises :class:`DivergentSumError`.

Time O(arcs + Σ m³) for components of m states with cycles. Over the log, max and tropical semirings a
compiled loop answers, and returns the gradient with the value.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from catena.errors import DivergentSumError
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.segments import with_zero
from catena.structure.automaton.topology import Topology, Unrolled
from catena.structure.automaton.value import Automaton
from catena.structure.backend import kernels_serve
from catena.structure.semirings import Log, Max, Real, Semiring, Tropical
from catena.structure.tensors import outside_inference_mode

# --- closure of a matrix ------------------------------------------------------------------------------------


def closure_of_matrix(semiring: Semiring, matrix: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """one ⊕ W ⊕ W⊗W ⊕ … for the matrices on the last two axes. Lehmann (1977). Time O(n³).

    Raises :class:`DivergentSumError` where the sum has no value. A real matrix must sum absolutely.
    """
    if isinstance(semiring, Real) and bool((matrix.detach() < 0).any()):
        _eliminated(semiring, matrix.detach().abs())
    return _eliminated(semiring, matrix)


def _eliminated(semiring: Semiring, matrix: Tensor) -> Tensor:
    n = semiring.shape(matrix)[-1]
    slack = _slack(matrix, n)
    for k in range(n):
        loops = _star(semiring, matrix[..., k : k + 1, k : k + 1], slack)
        through = semiring.mul(semiring.mul(matrix[..., :, k : k + 1], loops), matrix[..., k : k + 1, :])
        matrix = semiring.add(matrix, through)
    diagonal = torch.eye(n, dtype=torch.bool, device=matrix.device)
    nothing = torch.where(diagonal, semiring.one((n, n), matrix), semiring.zero((n, n), matrix))
    return semiring.add(matrix, nothing)


def _slack(matrix: Tensor, n: int) -> float:
    """By how much a cycle may differ from its true weight by rounding."""
    if not matrix.is_floating_point():
        return 0.0
    finite = matrix.detach()[matrix.detach().isfinite()].abs()
    size = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return 8 * n * size * torch.finfo(matrix.dtype).eps


def _star(semiring: Semiring, x: Tensor, slack: float) -> Tensor:
    """The closure of single elements, not misled by rounding.

    Where cycles of weight one are harmless, as for maxima, one that is above it by rounding counts as one.
    Elsewhere a cycle that is below one by no more than rounding cannot be told from a divergent one.
    """
    if _closes(semiring, semiring.one((), x)):
        return semiring.star(semiring.mul(x, semiring.constant(-slack, x)))
    semiring.star(semiring.mul(x.detach(), semiring.constant(slack, x)))
    return semiring.star(x)


def _closes(semiring: Semiring, x: Tensor) -> bool:
    try:
        semiring.star(x)
    except DivergentSumError:
        return False
    return True


# --- the plain program --------------------------------------------------------------------------------------


def unrolled_weights(unrolled: Unrolled, semiring: Semiring, weight: Tensor) -> Tensor:
    """The weights of the acyclic graph's arcs: plain ones, and the entries of closures."""
    parts = [weight[..., torch.from_numpy(unrolled.plain)]]
    for block in unrolled.blocks:
        c, m = block.states.shape
        cells = block.cells.sum(semiring, weight[..., torch.from_numpy(block.arcs)])
        matrices = cells.reshape(*cells.shape[:-1], c, m, m)
        parts.append(closure_of_matrix(semiring, matrices).flatten(-3))
    return torch.cat(parts, dim=-1)


def _swept(semiring: Semiring, unrolled: Unrolled, weight: Tensor, begins: Tensor, backwards: bool) -> Tensor:
    """Distances of the acyclic graph's nodes, level by level."""
    steps, position = unrolled.backwards if backwards else unrolled.forwards
    found = begins[..., :0]
    for level in steps:
        here = begins[..., torch.from_numpy(level.nodes)]
        if len(level.arcs):
            tails = found[..., torch.from_numpy(level.tails)]
            arrived = semiring.mul(tails, weight[..., torch.from_numpy(level.arcs)])
            here = semiring.add(here, level.sums.sum(semiring, arrived))
        found = torch.cat((found, here), dim=-1)
    return found[..., torch.from_numpy(position)]


def plain_distances(
    semiring: Semiring, topology: Topology, weight: Tensor, begins: Tensor, backwards: bool = False
) -> Tensor:
    """What the kernels compute, in any semiring, and differentiable any number of times."""
    unrolled, n = topology.unrolled, topology.n_states
    enter, leave = (unrolled.exits, np.arange(n)) if backwards else (np.arange(n), unrolled.exits)
    places = np.full(unrolled.n_nodes, n)
    places[enter] = np.arange(n)
    begins = with_zero(semiring, begins)[..., torch.from_numpy(places)]
    found = _swept(semiring, unrolled, unrolled_weights(unrolled, semiring, weight), begins, backwards)
    return found[..., torch.from_numpy(leave)]


def plain_total(semiring: Semiring, topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Tensor:
    """The sum over all paths, in any semiring."""
    there = plain_distances(semiring, topology, weight, initial)
    return semiring.sum(with_zero(semiring, semiring.mul(there, final)), dim=-1)


# --- totals -------------------------------------------------------------------------------------------------


def total(machine: Automaton) -> Shaped[Tensor, "..."]:
    """The weight of all paths of a machine together, as an element of its semiring.

    Differentiable: over the log semiring the gradient by a weight is how often its arc is expected. Failure
    arcs are made plain first. Raises :class:`DivergentSumError` where the sum has no value.
    """
    machine = expand_failures(machine)
    semiring, tensors = machine.semiring, (machine.weight, machine.initial, machine.final)
    if type(semiring) not in (Log, Max, Tropical) or not kernels_serve(*tensors):
        return plain_total(semiring, machine.topology, *tensors)
    batch = machine.weight.shape[:-1]
    rows = [x.reshape(batch.numel(), x.shape[-1]) for x in tensors]
    if type(semiring) is Tropical:
        return -_kernel_total(True, machine.topology, *(-x for x in rows)).reshape(batch)
    return _kernel_total(type(semiring) is Max, machine.topology, *rows).reshape(batch)


def distances(machine: Automaton, backwards: bool = False) -> Shaped[Tensor, "..."]:
    """For every state the weight of all paths to it from the beginning, or from it to the end.

    Differentiable. Failure arcs must have been made plain. Raises :class:`DivergentSumError` where a sum has
    no value.
    """
    semiring, begins = machine.semiring, machine.final if backwards else machine.initial
    fast = type(semiring) in (Log, Max, Tropical) and machine.weight.dim() == 1 and not _may_be_differentiated(machine)
    if not fast or not kernels_serve(machine.weight, begins):
        return plain_distances(semiring, machine.topology, machine.weight, begins, backwards)
    from catena.kernels.lattice import distances as compiled

    sign = -1.0 if type(semiring) is Tropical else 1.0
    weight, first = ((sign * x.detach().double()).contiguous().numpy() for x in (machine.weight, begins))
    found, _ = compiled(weight, first, machine.topology.graph_arrays, type(semiring) is not Log, backwards)
    return sign * torch.from_numpy(found).to(machine.weight.dtype)


@outside_inference_mode
def arc_marginals(machine: Automaton) -> Float[Tensor, "*batch arcs"]:
    """How often each arc is taken by a path drawn in proportion to its weight; above 1 where cycles repeat it.

    The gradient of the log total, itself differentiable. The machine must be over :class:`Log`.
    """
    log_z, pull = cast(Any, torch.func.vjp(lambda weight: total(_reweighted(machine, weight)), machine.weight))
    return pull(torch.ones_like(log_z))[0]


def _reweighted(machine: Automaton, weight: Tensor) -> Automaton:
    if type(machine.semiring) is not Log:
        raise TypeError(
            f"expected counts are those of a machine over Log, but this one is over {type(machine.semiring).__name__}: "
            "machine.over(Log()) has the same weights"
        )
    return machine.with_weights(weight, machine.initial, machine.final)


def _may_be_differentiated(machine: Automaton) -> bool:
    from catena.kernels.ops import wants_gradient

    return wants_gradient(machine.weight, machine.initial, machine.final)


# --- the kernels, differentiable ----------------------------------------------------------------------------


def _kernel_total(best: bool, topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Tensor:
    from catena.kernels.lattice import best_values, log_value, log_values
    from catena.kernels.ops import wants_gradient

    if wants_gradient(weight, initial, final):
        return _Total.apply(weight, initial, final, topology, best)[0]
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
        tensors = topology.graph_tensors
        return _both(True)(weight, initial, final, tensors)[0] if best else log_value(weight, initial, final, tensors)
    return (best_values if best else log_values)(weight, initial, final, topology.graph_arrays)


def _both(best: bool) -> Any:
    from catena.kernels.lattice import log_total, max_total

    return max_total if best else log_total


class _Total(torch.autograd.Function):
    """Rows of totals, and their slopes, which are kept for the backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, initial: Tensor, final: Tensor, topology: Topology, best: bool) -> Any:
        return _both(best)(weight, initial, final, topology.graph_tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])
        ctx.topology, ctx.best = inputs[3:]
        ctx.save_for_backward(*inputs[:3], *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        return *_Slopes.apply(grad, *ctx.saved_tensors, ctx.topology, ctx.best), None, None


class _Slopes(torch.autograd.Function):
    """The gradient of a total; its own derivative is taken through the plain program."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        a, b, c = (grad[:, None] * slope for slope in arguments[3:6])
        return a, b, c

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.topology, ctx.best = inputs[7:]
        ctx.save_for_backward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        semiring = Max() if ctx.best else Log()

        def slopes(grad: Tensor, *tensors: Tensor) -> Any:
            return torch.func.vjp(lambda *x: plain_total(semiring, ctx.topology, *x), *tensors)[1](grad)

        by_inputs = torch.func.vjp(slopes, *ctx.saved_tensors)[1](grads)
        return *by_inputs, *(None for _ in range(5))
