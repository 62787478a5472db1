r"""Sums over all paths of an automaton, exact even if there are infinitely many.

.. math::  d(q) = \bigoplus_{\pi\,:\,\to q} \lambda(p_\pi) \otimes w(\pi)

The reference implementation is :mod:`catena.structure.automaton.reference`. Time O(arcs + Σ m³) for components of m
states with cycles. In the log, max and tropical semirings, kernels compute the value together with its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.autograd import forward_ad

from catena.errors import DivergentSumError
from catena.kernels.automaton.ops import (
    GRAPH,
    best_values,
    distances_or_nan,
    fold_rows,
    invalid_rows,
    log_gradient,
    log_value,
    log_values,
    max_total,
)
from catena.kernels.automaton.ops import log_total as log_totals
from catena.kernels.common.ops import as_int64_array, needs_grad, torch_operator
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.reference import (
    any_wrong,
    is_mapped,
    kept,
    plain_distances,
    plain_total,
    useful_masks,
)
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import is_invalid
from catena.structure.automaton.wfsa import Automaton
from catena.structure.backend import can_use_kernels
from catena.structure.semirings import LogSemiring, MaxSemiring, Semiring, TropicalSemiring
from catena.structure.tensors import outside_inference_mode

# --- totals -------------------------------------------------------------------------------------------------


def total(machine: Automaton) -> Shaped[Tensor, "..."]:
    """The ⊕ sum of the weights of all accepting paths, as an element of the semiring.

    Differentiable. In the log semiring the gradient with respect to a weight is the expected number of uses of its arc.
    Failure arcs are expanded first. Weights on no accepting path are not read. The total and its gradient are nan if an
    accepting path without a weight of zero reads a weight of nan or +inf.

    Args:
        machine: the automaton.

    Raises:
        DivergentSumError: if the sum has no value.
    """
    machine = expand_failures(machine)
    semiring, tensors = machine.semiring, (machine.weight, machine.initial, machine.final)
    if type(semiring) is LogSemiring:
        return log_total(machine.topology, *tensors)
    if type(semiring) not in (MaxSemiring, TropicalSemiring) or not _kernels_sum(*tensors):
        return plain_total(semiring, machine.topology, *tensors)
    batch = machine.weight.shape[:-1]
    sign = -1.0 if type(semiring) is TropicalSemiring else 1.0
    rows = [sign * x.reshape(batch.numel(), x.shape[-1]) for x in tensors]
    return sign * _kernel_total(True, machine.topology, *rows).reshape(batch)


def log_total(topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Float[Tensor, "*batch"]:
    """The log of the sum of the weights of all paths, for each row of the batch, from log-weights.

    Args:
        topology: the arcs, without weights.
        weight: score of each arc, ``*batch arcs``.
        initial: score of starting in each state, ``*batch states``.
        final: score of ending in each state, ``*batch states``.
    """
    tensors = (weight, initial, final)
    if not _kernels_sum(*tensors):
        return plain_total(LogSemiring(), topology, *tensors)
    batch = weight.shape[:-1]
    return _kernel_total(False, topology, *(x.reshape(math.prod(batch), x.shape[-1]) for x in tensors)).reshape(batch)


def invalid_totals(topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Bool[Tensor, " rows"]:
    """For each row of log-weights, whether a path of otherwise nonzero weight reads nan or +inf."""
    tensors = (weight, initial, final)
    if can_use_kernels(*tensors):
        return invalid_rows(*tensors, topology.graph_tensors)
    log = LogSemiring()
    masks = useful_masks(log, topology, *tensors)
    return any_wrong([mask & is_invalid(log, x) for x, mask in zip(tensors, masks, strict=True)])


def distances(machine: Automaton, backwards: bool = False) -> Shaped[Tensor, "..."]:
    """For every state, the weight of all paths from the start to it, or from it to the end.

    Differentiable. Failure arcs must be expanded before. A distance is nan if a path of nonzero weight to its state
    reads nan or +inf.

    Args:
        machine: the automaton.
        backwards: if True, distances to the end.

    Raises:
        DivergentSumError: if the sum of a reachable state has no value.
    """
    semiring, begins = machine.semiring, machine.final if backwards else machine.initial
    fast = (
        type(semiring) in (LogSemiring, MaxSemiring, TropicalSemiring)
        and machine.weight.dim() == 1
        and not _may_be_differentiated(machine)
    )
    if not fast or not can_use_kernels(machine.weight, begins):
        return plain_distances(semiring, machine.topology, machine.weight, begins, backwards)
    sign = -1.0 if type(semiring) is TropicalSemiring else 1.0
    weight, first = ((sign * x.detach().double()).contiguous().numpy() for x in (machine.weight, begins))
    found = distances_or_nan(weight, first, machine.topology.graph_arrays, type(semiring) is not LogSemiring, backwards)
    return sign * torch.from_numpy(found).to(machine.weight.dtype)


def with_useful_weights(machine: Automaton) -> Automaton:
    """The same structure with zero for each weight that is on no accepting path of nonzero weight."""
    semiring, tensors = machine.semiring, (machine.weight, machine.initial, machine.final)
    masks = useful_masks(semiring, machine.topology, *tensors)
    weight, initial, final = (kept(semiring, x, mask) for x, mask in zip(tensors, masks, strict=True))
    return machine.with_weights(weight, initial, final)


def useful_distances(machine: Automaton, backwards: bool = False) -> tuple[Automaton, Shaped[Tensor, "..."]]:
    """The automaton and its distances, without its weights on no accepting path if their sums diverge."""
    try:
        return machine, distances(machine, backwards)
    except DivergentSumError:
        machine = with_useful_weights(machine)
        return machine, distances(machine, backwards)


@outside_inference_mode
def arc_marginals(machine: Automaton) -> Float[Tensor, "*batch arcs"]:
    """The expected number of uses of each arc in a random path; above 1 where cycles repeat it.

    A path is sampled in proportion to its weight. The result is the gradient of the log total and is differentiable.
    The automaton must be over :class:`LogSemiring`.

    Args:
        machine: the automaton, over :class:`LogSemiring`.
    """
    log_z, pull = cast(Any, torch.func.vjp(lambda weight: total(_reweighted(machine, weight)), machine.weight))
    return pull(torch.ones_like(log_z))[0]


def _reweighted(machine: Automaton, weight: Tensor) -> Automaton:
    if type(machine.semiring) is not LogSemiring:
        raise TypeError(
            f"machine must be over LogSemiring for expected counts, got {type(machine.semiring).__name__}. Call "
            "machine.over(LogSemiring())."
        )
    return machine.with_weights(weight, machine.initial, machine.final)


def _may_be_differentiated(machine: Automaton) -> bool:
    return needs_grad(machine.weight, machine.initial, machine.final)


# --- differentiable kernels ---------------------------------------------------------------------------------


def _kernels_sum(*tensors: Tensor) -> bool:
    """Whether kernels can sum. Forward-mode differentiation is only in the reference implementation."""
    return can_use_kernels(*tensors) and forward_ad._current_level < 0


def _kernel_total(best: bool, topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Tensor:
    traced = torch.compiler.is_compiling()
    if needs_grad(weight, initial, final) and not traced:
        return _Total.apply(weight, initial, final, topology, best)[0]
    if traced or torch._C._len_torch_dispatch_stack() > 0:
        topology.facts()
        tensors = topology.graph_tensors
        return max_total(weight, initial, final, tensors)[0] if best else log_value(weight, initial, final, tensors)
    return (best_values if best else log_values)(weight, initial, final, topology.graph_arrays)


class _Total(torch.autograd.Function):
    """Rows of totals, with their gradients saved for the backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, initial: Tensor, final: Tensor, topology: Topology, best: bool) -> Any:
        return (max_total if best else log_totals)(weight, initial, final, topology.graph_tensors)

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
    """The gradient of a total. Its own derivative is computed with the reference program."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        a, b, c = (grad[:, None] * gradient for gradient in arguments[3:6])
        return a, b, c

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.topology, ctx.best = inputs[7:]
        ctx.save_for_backward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, t = ctx.saved_tensors, ctx.topology
        if not ctx.best and not t.is_acyclic and any(map(is_mapped, inputs[1:])):
            ends = (torch.from_numpy(t.source), torch.from_numpy(t.target))
            by_inputs = log_curvature(*inputs, *grads, *ends)  # the reference program cannot map a cycle
        else:
            by_inputs = _curvature(MaxSemiring() if ctx.best else LogSemiring(), t, inputs, grads)
        return *by_inputs, *(None for _ in range(5))


def _curvature(semiring: Semiring, topology: Topology, inputs: Sequence[Tensor], grads: Sequence[Tensor]) -> Any:
    """Second derivative: the gradient with respect to ``inputs`` of the inner product of a gradient and ``grads``."""

    def gradients(grad: Tensor, *tensors: Tensor) -> Any:
        return torch.func.vjp(lambda *x: plain_total(semiring, topology, *x), *tensors)[1](grad)

    return torch.func.vjp(gradients, *inputs)[1](tuple(grads))


# --- for torch.compile and torch.vmap -----------------------------------------------------------------------


@torch_operator("lattice_log_curvature")
def log_curvature(
    grad: Tensor, weight: Tensor, initial: Tensor, final: Tensor, by_weight: Tensor, by_initial: Tensor,
    by_final: Tensor, source: Tensor, target: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """:func:`_curvature` of log totals as an operator over rows, for arcs with these sources and targets."""
    labels = as_int64_array(source)  # not read
    topology = Topology(labels, as_int64_array(target), labels, labels, initial.shape[-1])
    a, b, c, d = _curvature(LogSemiring(), topology, (grad, weight, initial, final), (by_weight, by_initial, by_final))
    return a, b, c, d


@log_curvature.register_fake
def _(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x) for x in tensors[:4])


fold_rows(log_curvature, 7)


def _keep_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *inputs[3][:2])


def _backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
    weight, initial, final, *ends = ctx.saved_tensors
    ones = weight.new_ones(weight.shape[0])
    return *log_curvature(ones, weight, initial, final, *grads, *ends)[1:], [None for _ in GRAPH]


log_gradient.register_autograd(_backward, setup_context=_keep_inputs)
