r"""Weight pushing: weights move along the paths, and every path keeps its weight.

.. math::  w'(p, a, q) = d(p)^{-1} \otimes w(p, a, q) \otimes d(q)

where :math:`d(q)` is the weight of all paths from q to the end. Afterwards the weights that leave a state, including
its final weight, sum to one, and the total of the automaton is in its initial weights. Mohri (2009), section 5.1.
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
    """An equivalent automaton with weights moved as far as possible toward the start or the end.

    Differentiable. States and arcs on no accepting path are removed. Needs a semiring with division.

    Args:
        machine: the automaton.
        toward: ``"initial"`` or ``"final"``.

    Raises:
        DivergentSumError: if the weights of all paths have no sum.
    """
    if toward == "final":
        return reverse(push(reverse(machine)))
    if toward != "initial":
        raise ValueError(f"toward must be 'initial' or 'final', got {toward!r}. Use one of the two.")
    return moved(*useful_distances(connect(machine), backwards=True))


def moved(machine: Automaton, potential: Shaped[Tensor, "..."]) -> Automaton:
    """The automaton with weight ``d(p)^-1 ⊗ w ⊗ d(q)`` for each arc from p to q of weight w, for a potential d."""
    semiring = machine.semiring
    source, target = (torch.from_numpy(x) for x in (machine.topology.source, machine.topology.target))
    weight = divide(semiring, multiply(semiring, machine.weight, potential[..., target]), potential[..., source])
    initial = multiply(semiring, machine.initial, potential)
    return machine.with_weights(weight, initial, divide(semiring, machine.final, potential))


def damping(machine: Automaton) -> Shaped[Tensor, ""]:
    """An element λ such that the sum over all paths converges if every arc weight is multiplied by λ.

    The automaton must be over the log, real, max or tropical semiring and have no batch axes.
    """
    semiring = machine.semiring
    weight = machine.weight.detach().abs() if isinstance(semiring, RealSemiring) else machine.weight.detach()
    scores = log_weights(semiring, weight).double()
    top = scores.max() if len(scores) else scores.new_zeros(())
    if type(semiring) in (LogSemiring, RealSemiring):  # the weights that leave a state sum to at most a half
        source = torch.from_numpy(machine.topology.source).to(scores.device)
        whole = torch.bincount(source, weights=(scores - top).exp())
        top = top + (2 * whole.max()).log() if len(scores) else top
    return semiring.lift(-top).to(machine.weight.dtype)


def push_damped(machine: Automaton, factor: Shaped[Tensor, ""]) -> Automaton:
    """The automaton pushed as if every arc weight were multiplied by ``factor``; paths keep their weights.

    For automata whose weights of all paths have no sum. States with proportional futures get equal ones, as in
    :func:`push`, because the weight of a string of n labels is multiplied by ``factor`` to the n-th in both.
    """
    lighter = machine.semiring.mul(machine.weight, factor)
    damped = machine.with_weights(lighter, machine.initial, machine.final)
    return moved(machine, distances(damped, backwards=True))


def normalize(machine: Automaton) -> Automaton:
    """The automaton with all weights divided by their total; in the log semiring, weights become log-probabilities.

    Args:
        machine: the automaton.
    """
    machine = push(machine)
    semiring = machine.semiring
    whole = semiring.sum(with_zero(semiring, machine.initial), dim=-1)[..., None]
    return machine.with_weights(machine.weight, divide(semiring, machine.initial, whole), machine.final)
