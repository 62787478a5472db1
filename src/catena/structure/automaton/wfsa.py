r"""Weighted finite-state automata: arcs, initial and final weights over a semiring.

The weight of a path is the ⊗ product of an initial weight, the weights of its arcs and a final weight. The weight of a
pair of strings is ⊕ over all paths that read the first and write the second:

.. math::  A(x, y) = \bigoplus_{\pi\,:\,x \to y} \lambda(p_\pi) \otimes w(\pi) \otimes \rho(q_\pi)

Label 0 is epsilon: nothing is read, or written. An arc with input label -1 is a **failure arc**: it is taken if its
source has no arc for the next label (or no final weight at the end of the string), and it reads nothing. An automaton
whose arcs all write what they read is an acceptor.

The structure consists of integer tensors and never depends on the values of weights, so weights may be parameters.

Tested in tests/structure/automaton/test_value.py and tests/structure/automaton/test_paths.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.kernels.common.ops import as_int64_array
from catena.structure.automaton.segments import IntArray
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import is_invalid, log_weights, same_semiring
from catena.structure.semirings import BooleanSemiring, LogSemiring, Semiring

LOG = LogSemiring()

EPSILON = 0
"""The label that reads or writes nothing."""

FAILURE = -1
"""The label of an arc that is taken, without reading, if there is no arc for the next label."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """Weighted acceptor or transducer over any semiring, with differentiable weights.

    Args:
        source: ``source[i]`` is the state that arc ``i`` leaves.
        target: ``target[i]`` is the state that arc ``i`` enters.
        input: ``input[i]`` is the label that arc ``i`` reads: a positive integer, EPSILON or FAILURE.
        output: ``output[i]`` is the label that arc ``i`` writes. A failure arc has output FAILURE and writes nothing.
        weight: ``weight[..., i]`` is the weight of arc ``i``, an element of the semiring. Batch axes in front are
            several automata of the same structure.
        initial: ``initial[..., q]`` is the weight of starting in state ``q``.
        final: ``final[..., q]`` is the weight of ending in state ``q``.
        semiring: the operations ⊕ and ⊗; :class:`~catena.structure.semirings.LogSemiring` by default.

    Build automata with :mod:`catena.structure.automaton.build`, combine them with
    :mod:`~catena.structure.automaton.compose` and :mod:`~catena.structure.automaton.rational`, and sum their paths with
    :func:`~catena.structure.automaton.distance.total`.
    """

    source: Int[Tensor, " arcs"]
    target: Int[Tensor, " arcs"]
    input: Int[Tensor, " arcs"]
    output: Int[Tensor, " arcs"]
    weight: Shaped[Tensor, "*axes arcs"]
    initial: Shaped[Tensor, "*axes states"]
    final: Shaped[Tensor, "*axes states"]
    semiring: Semiring = LOG

    def __post_init__(self) -> None:
        self._check_columns()
        self._check_weights(self.n_states)
        self._check_arcs()

    @classmethod
    def trusted(
        cls,
        topology: Topology,
        weight: Shaped[Tensor, "..."],
        initial: Shaped[Tensor, "..."],
        final: Shaped[Tensor, "..."],
        semiring: Semiring,
    ) -> Automaton:
        """An automaton from parts that are known to fit together, without checks."""
        machine = object.__new__(cls)
        for name in ("source", "target", "input", "output"):
            machine.__dict__[name] = torch.from_numpy(getattr(topology, name))
        machine.__dict__.update(topology=topology, weight=weight, initial=initial, final=final, semiring=semiring)
        return machine

    def _check_columns(self) -> None:
        size = self.source.shape
        for name in ("source", "target", "input", "output"):
            x = getattr(self, name)
            if x.dim() != 1 or x.shape != size or x.is_floating_point() or x.dtype is torch.bool:
                raise ShapeError(
                    f"{name} must be a vector of integers like source, whose shape is {list(size)}, got {x.dtype} of "
                    f"shape {list(x.shape)}. Pass one entry of source, target, input and output for each arc."
                )
        if self.final.dim() == 0:
            raise ShapeError("final must have an axis of states, got a scalar. Pass one weight for each state.")

    def _check_weights(self, n: int) -> None:
        a = self.n_arcs
        lead = [] if self.semiring.width is None else [self.semiring.width]
        for name, x, size in (("weight", self.weight, a), ("initial", self.initial, n), ("final", self.final, n)):
            wanted = [*self.weight.shape[:-1], size]
            if list(x.shape) != wanted or wanted[: len(lead)] != lead:
                raise ShapeError(
                    f"{name} must have shape [{', '.join(map(str, [*lead, '...', size]))}] for {n} states and {a} arcs "
                    f"over {type(self.semiring).__name__}, got {list(x.shape)}. Use the same batch axes for weight, "
                    "initial and final."
                )
            if not x.is_floating_point() and not isinstance(self.semiring, BooleanSemiring):
                raise ShapeError(
                    f"{name} must be floating-point over {type(self.semiring).__name__}, got {x.dtype}. Call .float() "
                    "first."
                )

    def _check_arcs(self) -> None:
        t = self.topology
        for name, states in (("source", t.source), ("target", t.target)):
            for i in np.flatnonzero((states < 0) | (states >= t.n_states))[:1]:
                raise ShapeError(
                    f"{name} of arc {i} must be a state from 0 to {t.n_states - 1}, got {states[i]}. Pass a final "
                    "weight for each state."
                )
        for name, labels in (("input", t.input), ("output", t.output)):
            for i in np.flatnonzero(labels < FAILURE)[:1]:
                raise ShapeError(
                    f"{name} of arc {i} must be a positive label, 0 (epsilon) or -1 (failure), got {labels[i]}. Number "
                    "labels from 1."
                )
        failing = t.input == FAILURE
        if failing.any() or (t.output == FAILURE).any():
            self._check_failures(failing)

    def _check_failures(self, failing: IntArray) -> None:
        t = self.topology
        for i in np.flatnonzero(failing != (t.output == FAILURE))[:1]:
            raise ShapeError(
                f"A failure arc must have input and output -1, got {t.input[i]} and {t.output[i]} for arc {i}."
                " Set both to -1."
            )
        states, counts = np.unique(t.source[failing], return_counts=True)
        for q in states[counts > 1][:1]:
            raise ShapeError(f"A state must have at most one failure arc, got several for state {q}. Remove one.")
        if not Topology(t.source[failing], t.target[failing], t.input, t.output, t.n_states).is_acyclic:
            raise ShapeError("The failure arcs form a cycle. Remove one of its arcs.")

    # --- properties -----------------------------------------------------------------------------------------

    @property
    def n_states(self) -> int:
        """The number of states, which are numbered from 0."""
        return self.final.shape[-1]

    @property
    def n_arcs(self) -> int:
        """The number of arcs."""
        return self.source.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.weight.device

    @cached_property
    def topology(self) -> Topology:
        """The structure without weights, analyzed on first use."""
        columns = [as_int64_array(x) for x in (self.source, self.target, self.input, self.output)]
        return Topology(columns[0], columns[1], columns[2], columns[3], self.n_states)

    @cached_property
    def is_acceptor(self) -> bool:
        """Whether every arc writes what it reads."""
        return bool((self.topology.input == self.topology.output).all())

    @cached_property
    def has_failures(self) -> bool:
        """Whether there are failure arcs, as in a back-off n-gram model."""
        return bool((self.topology.input == FAILURE).any())

    @property
    def is_acyclic(self) -> bool:
        """Whether the number of paths is finite."""
        return self.topology.is_acyclic

    @property
    def requires_grad(self) -> bool:
        """Whether any of the weights requires a gradient."""
        return self.weight.requires_grad or self.initial.requires_grad or self.final.requires_grad

    # --- other weights --------------------------------------------------------------------------------------

    def with_weights(
        self,
        weight: Shaped[Tensor, "..."],
        initial: Shaped[Tensor, "..."],
        final: Shaped[Tensor, "..."],
        semiring: Semiring | None = None,
    ) -> Automaton:
        """The same structure with other weights. The analysis of the structure is reused."""
        changed = Automaton.trusted(self.topology, weight, initial, final, semiring or self.semiring)
        changed._check_weights(self.topology.n_states)
        return changed

    def mapped(self, change: Callable[[Tensor], Tensor], semiring: Semiring | None = None) -> Automaton:
        """The same structure with a function applied to all weights, including initial and final ones."""
        return self.with_weights(change(self.weight), change(self.initial), change(self.final), semiring)

    def over(self, semiring: Semiring, *values: Shaped[Tensor, "..."]) -> Automaton:
        """The same automaton over another semiring, with the same log-weights.

        Args:
            semiring: the new semiring.
            values: the additive values of the arcs for an expectation semiring, ``semiring.n_values`` of them. Initial
                and final weights get the value 0.
        """
        if len(values) != semiring.n_values:
            raise ValueError(
                f"values must have length {semiring.n_values} for {type(semiring).__name__}, got {len(values)}. Pass "
                "one tensor for each additive value."
            )
        scores = self.mapped(partial(log_weights, self.semiring), LOG)
        nothing = [torch.zeros_like(scores.initial) for _ in values]
        initial, final = (semiring.lift(x, *nothing) for x in (scores.initial, scores.final))
        return self.with_weights(semiring.lift(scores.weight, *values), initial, final, semiring)

    def detach(self) -> Automaton:
        """The same automaton with detached weights."""
        return self.mapped(Tensor.detach)


def check_same_semiring(*machines: Automaton) -> Semiring:
    """The semiring of all automata; raises TypeError if they differ."""
    first = machines[0].semiring
    for other in machines[1:]:
        if not same_semiring(first, other.semiring):
            raise TypeError(
                f"All automata must be over {type(first).__name__}, got {type(other.semiring).__name__}. Convert with "
                "machine.over(semiring)."
            )
    return first


def check_same_batch(*machines: Automaton) -> None:
    """Raise ShapeError unless all automata have the same batch axes."""
    shapes = [list(machine.weight.shape[:-1]) for machine in machines]
    for other in shapes[1:]:
        if other != shapes[0]:
            raise ShapeError(
                f"machines must have the same batch axes, got {shapes[0]} and {other}. Expand their weights first."
            )


def check_one_machine(what: str, machine: Automaton) -> None:
    """Raise ShapeError if an automaton has batch axes."""
    lead = 0 if machine.semiring.width is None else 1
    if machine.weight.dim() > 1 + lead:
        raise ShapeError(
            f"machine must have no batch axes in {what}, got {list(machine.weight.shape[lead:-1])}. Call {what} for "
            "each automaton of the batch."
        )


def check_numbers(what: str, machine: Automaton) -> None:
    """Raise ValueError if a weight is nan or +inf, even one on no path: call ``connect`` first."""
    tensors = (machine.weight, machine.initial, machine.final)
    if any(bool(is_invalid(machine.semiring, x).any()) for x in tensors):
        raise not_numbers(what)


def not_numbers(what: str) -> ValueError:
    """The error of an algorithm that compares weights and finds nan or an infinite weight."""
    return ValueError(
        f"machine must have comparable weights in {what}, got nan or an infinite weight. Remove these arcs, or correct "
        "their scores."
    )
