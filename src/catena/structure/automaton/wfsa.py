r"""Weighted automata as values: arcs, initial and final weights over a semiring.

A path takes an initial weight, the weights of its arcs and a final weight, joined by ⊗. The weight of a pair
of strings is ⊕ over all paths that read the one and write the other:

.. math::  A(x, y) = \bigoplus_{\pi\,:\,x \to y} \lambda(p_\pi) \otimes w(\pi) \otimes \rho(q_\pi)

Label 0 is epsilon: nothing is read, or written. An arc that reads label -1 is a **failure arc**: it is taken
where the next label, or the end of the string, has no arc (no final weight) at its source, and reads nothing.
A machine whose arcs all write what they read is an acceptor.

Structure is integer tensors and never depends on the values of weights, so weights may be parameters.
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
from catena.kernels.ops import as_int64_array
from catena.structure.automaton.topology import IntArray, Topology
from catena.structure.automaton.weights import is_invalid, log_weights, same_semiring
from catena.structure.semirings import BooleanSemiring, LogSemiring, Semiring

LOG = LogSemiring()

EPSILON = 0
"""The label that reads or writes nothing."""

FAILURE = -1
"""The label of an arc that is taken, and reads nothing, where there is no arc for the next label."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """A weighted acceptor or transducer.

    Args:
        source: ``source[i]`` is the state that arc ``i`` leaves.
        target: ``target[i]`` is the state that arc ``i`` enters.
        input: ``input[i]`` is the label that arc ``i`` reads: above 0, or EPSILON, or FAILURE.
        output: ``output[i]`` is the label that arc ``i`` writes. A failure arc writes FAILURE as well, which
            means nothing.
        weight: ``weight[..., i]`` is the element of arc ``i``, in the semiring's representation; there may be
            batch axes in front, as many machines of one shape.
        initial: ``initial[..., q]`` is the element of beginning in state ``q``.
        final: ``final[..., q]`` is the element of ending in state ``q``.
        semiring: what ⊕ and ⊗ are.
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
        """A machine whose parts are known to fit together: nothing is checked again."""
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
                    f"shape {list(x.shape)}. Give source, target, input and output one entry for each arc."
                )
        if self.final.dim() == 0:
            raise ShapeError("final must have an axis of states, got a number. Give one weight for each state.")

    def _check_weights(self, n: int) -> None:
        a = self.n_arcs
        lead = [] if self.semiring.width is None else [self.semiring.width]
        for name, x, size in (("weight", self.weight, a), ("initial", self.initial, n), ("final", self.final, n)):
            wanted = [*self.weight.shape[:-1], size]
            if list(x.shape) != wanted or wanted[: len(lead)] != lead:
                raise ShapeError(
                    f"{name} of a machine with {n} states and {a} arcs over {type(self.semiring).__name__} must have "
                    f"the shape [{', '.join(map(str, [*lead, '...', size]))}], with the same batch axes as the "
                    f"weights of the arcs, but its shape is {list(x.shape)}"
                )
            if not x.is_floating_point() and not isinstance(self.semiring, BooleanSemiring):
                raise ShapeError(
                    f"{name} must be floating-point numbers over {type(self.semiring).__name__}, got {x.dtype}. Call "
                    ".float() first."
                )

    def _check_arcs(self) -> None:
        t = self.topology
        for name, states in (("source", t.source), ("target", t.target)):
            for i in np.flatnonzero((states < 0) | (states >= t.n_states))[:1]:
                raise ShapeError(
                    f"the {name} of an arc must be one of {t.n_states} states, numbered from 0, but that of arc {i} is "
                    f"{states[i]}"
                )
        for name, labels in (("input", t.input), ("output", t.output)):
            for i in np.flatnonzero(labels < FAILURE)[:1]:
                raise ShapeError(
                    f"the {name} of an arc must be a label above 0, or 0 for epsilon, or -1 for a failure arc, but "
                    f"that of arc {i} is {labels[i]}"
                )
        failing = t.input == FAILURE
        if failing.any() or (t.output == FAILURE).any():
            self._check_failures(failing)

    def _check_failures(self, failing: IntArray) -> None:
        t = self.topology
        for i in np.flatnonzero(failing != (t.output == FAILURE))[:1]:
            raise ShapeError(
                f"a failure arc must both read and write FAILURE (-1), but arc {i} reads {t.input[i]} and writes "
                f"{t.output[i]}"
            )
        states, counts = np.unique(t.source[failing], return_counts=True)
        for q in states[counts > 1][:1]:
            raise ShapeError(f"a state must have at most one failure arc, but state {q} has several")
        if not Topology(t.source[failing], t.target[failing], t.input, t.output, t.n_states).is_acyclic:
            raise ShapeError("the failure arcs of a machine must not lead in a circle, but they do")

    # --- what it is -----------------------------------------------------------------------------------------

    @property
    def n_states(self) -> int:
        """How many states there are; they are numbered from 0."""
        return self.final.shape[-1]

    @property
    def n_arcs(self) -> int:
        """How many arcs there are; sources, targets, labels and weights have one entry for each."""
        return self.source.shape[0]

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""
        return self.weight.device

    @cached_property
    def topology(self) -> Topology:
        """The structure without weights, analyzed when it is first asked for."""
        columns = [as_int64_array(x) for x in (self.source, self.target, self.input, self.output)]
        return Topology(columns[0], columns[1], columns[2], columns[3], self.n_states)

    @cached_property
    def is_acceptor(self) -> bool:
        """Whether every arc writes what it reads."""
        return bool((self.topology.input == self.topology.output).all())

    @cached_property
    def has_failures(self) -> bool:
        """Whether an arc is taken where no other fits, as in an n-gram model that backs off."""
        return bool((self.topology.input == FAILURE).any())

    @property
    def is_acyclic(self) -> bool:
        """Whether its paths are finitely many."""
        return self.topology.is_acyclic

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient by any of its weights is wanted."""
        return self.weight.requires_grad or self.initial.requires_grad or self.final.requires_grad

    # --- the same machine, otherwise weighted ---------------------------------------------------------------

    def with_weights(
        self,
        weight: Shaped[Tensor, "..."],
        initial: Shaped[Tensor, "..."],
        final: Shaped[Tensor, "..."],
        semiring: Semiring | None = None,
    ) -> Automaton:
        """The same structure with other weights. What is known of the structure is kept."""
        changed = Automaton.trusted(self.topology, weight, initial, final, semiring or self.semiring)
        changed._check_weights(self.topology.n_states)
        return changed

    def mapped(self, change: Callable[[Tensor], Tensor], semiring: Semiring | None = None) -> Automaton:
        """The same structure with all weights, initial and final ones included, put through a function."""
        return self.with_weights(change(self.weight), change(self.initial), change(self.final), semiring)

    def over(self, semiring: Semiring, *values: Shaped[Tensor, "..."]) -> Automaton:
        """This machine over another semiring, with the same log-weights.

        ``values`` are the additive values of the arcs that the expectation semirings take; those of
        beginnings and ends are 0.
        """
        if len(values) != semiring.n_values:
            raise ValueError(
                f"{type(semiring).__name__} takes {semiring.n_values} additive values, but {len(values)} are given"
            )
        scores = self.mapped(partial(log_weights, self.semiring), LOG)
        nothing = [torch.zeros_like(scores.initial) for _ in values]
        initial, final = (semiring.lift(x, *nothing) for x in (scores.initial, scores.final))
        return self.with_weights(semiring.lift(scores.weight, *values), initial, final, semiring)

    def detach(self) -> Automaton:
        """The same machine, with weights that no gradient flows through."""
        return self.mapped(Tensor.detach)


def check_same_semiring(*machines: Automaton) -> Semiring:
    """The semiring of all machines, or an error that names the different ones."""
    first = machines[0].semiring
    for other in machines[1:]:
        if not same_semiring(first, other.semiring):
            raise TypeError(
                f"the machines must be over one semiring, but they are over {type(first).__name__} and "
                f"{type(other.semiring).__name__}: machine.over(semiring) carries one over"
            )
    return first


def check_same_batch(*machines: Automaton) -> None:
    """Raise unless all machines have the same batch axes."""
    shapes = [list(machine.weight.shape[:-1]) for machine in machines]
    for other in shapes[1:]:
        if other != shapes[0]:
            raise ShapeError(
                f"machines must have the same batch axes, got {shapes[0]} and {other}. Expand their weights first."
            )


def check_one_machine(what: str, machine: Automaton) -> None:
    """Raise where a machine has batch axes."""
    lead = 0 if machine.semiring.width is None else 1
    if machine.weight.dim() > 1 + lead:
        raise ShapeError(
            f"machine must have no batch axes in {what}, got {list(machine.weight.shape[lead:-1])}. Call {what} for "
            "each machine of the batch."
        )


def check_numbers(what: str, machine: Automaton) -> None:
    """Raise where a weight is nan or +inf. Weights on no path count too: call ``connect`` first."""
    tensors = (machine.weight, machine.initial, machine.final)
    if any(bool(is_invalid(machine.semiring, x).any()) for x in tensors):
        raise not_numbers(what)


def not_numbers(what: str) -> ValueError:
    """The error of an algorithm that compares weights."""
    return ValueError(
        f"machine must have weights that can be compared in {what}, got nan or an infinite weight. Remove these arcs, "
        "or correct the scores that they come from."
    )
