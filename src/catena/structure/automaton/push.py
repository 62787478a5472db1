r"""Pushing: weights are moved along the paths, and no path changes its weight.

.. math::  w'(p, a, q) = d(p)^{-1} \otimes w(p, a, q) \otimes d(q)

with :math:`d(q)` the weight of all paths from q to the end. Afterwards what leaves any state, its final weight
included, sums to one; the total of the machine is in its initial weights. Mohri (2009), section 5.1.
"""

from __future__ import annotations

import torch

from catena.structure.automaton.distance import distances
from catena.structure.automaton.rational import connect, reverse
from catena.structure.automaton.segments import with_zero
from catena.structure.automaton.value import Automaton
from catena.structure.automaton.weights import divide


def push(machine: Automaton, toward: str = "initial") -> Automaton:
    """The same weights, as near as they can be to the beginning or, with ``toward="final"``, to the end.

    Differentiable. The machine is trimmed. Needs a semiring with division.
    """
    if toward == "final":
        return reverse(push(reverse(machine)))
    if toward != "initial":
        raise ValueError(f"toward must be 'initial' or 'final', but it is {toward!r}")
    machine = connect(machine)
    semiring = machine.semiring
    potential = distances(machine, backwards=True)
    source, target = (torch.from_numpy(x) for x in (machine.topology.source, machine.topology.target))
    weight = divide(semiring, semiring.mul(machine.weight, potential[..., target]), potential[..., source])
    initial = semiring.mul(machine.initial, potential)
    return machine.with_weights(weight, initial, divide(semiring, machine.final, potential))


def normalise(machine: Automaton) -> Automaton:
    """A machine whose weights are those of the given one, divided by their total: over the log semiring, log p."""
    machine = push(machine)
    semiring = machine.semiring
    whole = semiring.sum(with_zero(semiring, machine.initial), dim=-1)[..., None]
    return machine.with_weights(machine.weight, divide(semiring, machine.initial, whole), machine.final)
