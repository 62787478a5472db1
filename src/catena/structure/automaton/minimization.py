"""Minimization: the equivalent deterministic automaton with the fewest states.

Weights are pushed toward the start, so that states with equivalent futures have equal weights (Mohri 1997, section
3.3). Then equivalent states are merged.
"""

from __future__ import annotations

import numpy as np
import torch

from catena._lazy import LazyModule
from catena.errors import DivergentSumError
from catena.structure.automaton.determinization import (
    check_comparable,
    is_deterministic,
    label_pairs,
    quantize_weights,
    resolve_tolerance,
)
from catena.structure.automaton.pushing import damping, push, push_damped
from catena.structure.automaton.rational import connect
from catena.structure.automaton.segments import distinct
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import nonzero
from catena.structure.automaton.wfsa import Automaton, check_numbers
from catena.structure.semirings import BooleanSemiring

_minimize = LazyModule("catena.kernels.automaton.cpu_minimize")


def minimize(machine: Automaton, tolerance: float | None = None) -> Automaton:
    """The smallest automaton that is equivalent to a deterministic one.

    Time O(arcs · log arcs) after pushing.

    Args:
        machine: a deterministic automaton.
        tolerance: weights that differ by less are treated as equal; by default 1e-9 in float64 and 1e-4 in float32.
    """
    check_comparable("minimize", machine)
    if not is_deterministic(machine):
        raise ValueError(
            "machine must be deterministic in minimize, got several initial states, epsilons, failure arcs or several "
            "arcs with one label. Call minimize(determinize(machine))."
        )
    machine = connect(machine)
    check_numbers("minimize", machine)
    machine = _pushed(machine)
    t, size = machine.topology, resolve_tolerance(machine, tolerance)
    if not t.n_states:
        return machine
    label = distinct(label_pairs(t)[0], distinct(quantize_weights(machine.weight, size))[1])[1]
    kind = distinct(quantize_weights(machine.final, size))[1]
    block = _minimize.refine_partition(t.source, t.target, label, kind)
    chosen = np.empty(block.max() + 1, np.int64)
    chosen[block[::-1]] = np.arange(t.n_states)[::-1]
    arcs = np.flatnonzero(np.isin(t.source, chosen))
    topology = Topology(block[t.source[arcs]], block[t.target[arcs]], t.input[arcs], t.output[arcs], len(chosen))
    begin = int(np.flatnonzero(nonzero(machine.semiring, machine.initial))[0])
    initial = machine.semiring.zero((len(chosen),), machine.initial).clone()
    initial[block[begin]] = machine.initial[begin]
    final = machine.final[torch.from_numpy(chosen)]
    return Automaton.trusted(topology, machine.weight[torch.from_numpy(arcs)], initial, final, machine.semiring)


def _pushed(machine: Automaton) -> Automaton:
    """Push weights, so that states with proportional futures get equal ones."""
    if isinstance(machine.semiring, BooleanSemiring):
        return machine  # all weights on a path are already one
    try:
        return push(machine)
    except DivergentSumError:
        return push_damped(machine, damping(machine))
