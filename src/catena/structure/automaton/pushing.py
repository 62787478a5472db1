r"""Pushing: weights are moved along the paths, and no path changes its weight.

.. math::  w'(p, a, q) = d(p)^{-1} \otimes w(p, a, q) \otimes d(q)

with :math:`d(q)` the weight of all paths from q to the end. Afterwards what leaves any state, its final weight
included, sums to one; the total of the machine is in its initial weights. Mohri (2009), section 5.1.
"""

from __future__ import annotations

import torch
from jaxtyping import Shaped
from torch import Tensor

from catena.structure.automaton.distance import distances, useful_distances
from catena.structure.automaton.rational import connect, reverse
from catena.structure.automaton.segments import with_zero
from catena.structure.automaton.weights import divide, log_weights, multiply
from catena.structure.automaton.wfsa import Automaton
from catena.structure.semirings import LogSemiring, RealSemiring


def push(machine: Automaton, toward: str = "initial") -> Automaton:
    """The same weights, as near as they can be to the beginning or, with ``toward="final"``, to the end.

    Differentiable. The machine is trimmed. Needs a semiring with division. Raises :class:`DivergentSumError` if the
    weights of all paths have no sum.
    """
    if toward == "final":
        return reverse(push(reverse(machine)))
    if toward != "initial":
        raise ValueError(f"toward must be 'initial' or 'final', but it is {toward!r}")
    return moved(*useful_distances(connect(machine), backwards=True))


def moved(machine: Automaton, potential: Shaped[Tensor, "..."]) -> Automaton:
    """The machine with ``d(p)^-1 ⊗ w ⊗ d(q)`` for the weight w of each arc from p to q, by any ``potential`` d."""
    semiring = machine.semiring
    source, target = (torch.from_numpy(x) for x in (machine.topology.source, machine.topology.target))
    weight = divide(semiring, multiply(semiring, machine.weight, potential[..., target]), potential[..., source])
    initial = multiply(semiring, machine.initial, potential)
    return machine.with_weights(weight, initial, divide(semiring, machine.final, potential))


def damping(machine: Automaton) -> Shaped[Tensor, ""]:
    """An element λ such that the weights of all paths have a sum if every arc weighs λ times as much.

    The machine must be over Log, Real, Max or Tropical and have no batch axes.
    """
    semiring = machine.semiring
    weight = machine.weight.detach().abs() if isinstance(semiring, RealSemiring) else machine.weight.detach()
    scores = log_weights(semiring, weight).double()
    top = scores.max() if len(scores) else scores.new_zeros(())
    if type(semiring) in (LogSemiring, RealSemiring):  # what leaves a state sums to a half at most
        source = torch.from_numpy(machine.topology.source).to(scores.device)
        whole = torch.bincount(source, weights=(scores - top).exp())
        top = top + (2 * whole.max()).log() if len(scores) else top
    return semiring.lift(-top).to(machine.weight.dtype)


def push_damped(machine: Automaton, factor: Shaped[Tensor, ""]) -> Automaton:
    """The machine pushed as if every arc weighed ``factor`` times as much; paths keep their weights.

    Serves where the weights of all paths have no sum. States with proportional futures get equal ones, as by
    :func:`push`: the weights of strings of n labels count ``factor`` to the n-th times in both.
    """
    lighter = machine.semiring.mul(machine.weight, factor)
    damped = machine.with_weights(lighter, machine.initial, machine.final)
    return moved(machine, distances(damped, backwards=True))


def normalize(machine: Automaton) -> Automaton:
    """A machine whose weights are those of the given one, divided by their total: over the log semiring, log p."""
    machine = push(machine)
    semiring = machine.semiring
    whole = semiring.sum(with_zero(semiring, machine.initial), dim=-1)[..., None]
    return machine.with_weights(machine.weight, divide(semiring, machine.initial, whole), machine.final)
