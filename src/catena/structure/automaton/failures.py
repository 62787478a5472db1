"""Expansion of failure arcs into ordinary arcs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from catena.errors import ShapeError
from catena.structure.automaton.segments import IntArray, with_one
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import multiply, nonzero
from catena.structure.automaton.wfsa import EPSILON, FAILURE, Automaton


def failure_targets(machine: Automaton) -> tuple[IntArray, IntArray]:
    """For every state, the target of its failure arc and the arc itself; -1 if it has none."""
    t = machine.topology
    failing = np.flatnonzero(t.input == FAILURE)
    targets, arcs = np.full(t.n_states, -1, np.int64), np.full(t.n_states, -1, np.int64)
    targets[t.source[failing]], arcs[t.source[failing]] = t.target[failing], failing
    silent = np.zeros(t.n_states, bool)
    silent[t.source[t.input == EPSILON]] = True
    for i in failing[silent[t.target[failing]]][:1]:
        raise ShapeError(
            f"State {t.target[i]} is the target of a failure arc and has an epsilon arc, so that failures there depend "
            "on labels already read. Remove the epsilon arc, or change the failure arc."
        )
    return targets, arcs


def failure_weights(machine: Automaton, targets: IntArray, arcs: IntArray) -> list[Tensor]:
    """The list whose entry ``[d][..., q]`` is the weight of failing ``d`` times in a row from state ``q``."""
    semiring = machine.semiring
    weight = with_one(semiring, machine.weight)
    at = np.arange(machine.n_states)
    found = [semiring.one(semiring.shape(machine.initial), machine.initial)]
    while (at >= 0).any() and (arcs[at] >= 0).any():
        step = np.where(at >= 0, arcs[at], -1)
        found.append(multiply(semiring, found[-1], weight[..., torch.from_numpy(step)]))
        at = np.where(step >= 0, targets[at], -1)
    return found


def failed_finals(machine: Automaton, targets: IntArray, chain: list[Tensor]) -> Tensor:
    """Final weights; a state without one gets the weight of the first state along its failure arcs that has one."""
    ends = nonzero(machine.semiring, machine.final)
    at, failures = np.arange(machine.n_states), np.zeros(machine.n_states, np.int64)
    while True:
        moving = ~ends[at] & (targets[at] >= 0)
        if not moving.any():
            break
        at[moving], failures[moving] = targets[at[moving]], failures[moving] + 1
    return _at_depth(machine, chain, failures, machine.final[..., torch.from_numpy(at)])


def _at_depth(machine: Automaton, chain: list[Tensor], failures: IntArray, x: Tensor) -> Tensor:
    table = torch.cat(chain, dim=-1)
    places = torch.from_numpy(failures * machine.n_states + np.arange(machine.n_states))
    return multiply(machine.semiring, table[..., places], x)


def expand_failures(machine: Automaton) -> Automaton:
    """An equivalent automaton without failure arcs.

    Every state gets the arcs of its failure states for labels that it lacks. Size O(states × labels).

    Args:
        machine: the automaton.
    """
    if not machine.has_failures:
        return machine
    targets, arcs = failure_targets(machine)
    chain = failure_weights(machine, targets, arcs)
    sources, taken, failures = _expanded(machine, targets)
    t = machine.topology
    table = torch.cat(chain, dim=-1)
    paid = table[..., torch.from_numpy(failures * t.n_states + sources)]
    weight = multiply(machine.semiring, paid, machine.weight[..., torch.from_numpy(taken)])
    topology = Topology(sources, t.target[taken], t.input[taken], t.output[taken], t.n_states)
    finals = failed_finals(machine, targets, chain)
    return Automaton.trusted(topology, weight, machine.initial, finals, machine.semiring)


def _expanded(machine: Automaton, targets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """(source, arc of the automaton, number of failures before it) of each expanded arc."""
    t = machine.topology
    own = t.by_input
    found = []
    for q in range(t.n_states):
        seen: set[int] = set()
        at, depth = q, 0
        while at >= 0:
            here = set()
            for i in range(own.starts[at], own.starts[at + 1]):
                label = int(own.labels[i])
                if label != FAILURE and label not in seen and (label != EPSILON or depth == 0):
                    here.add(label)
                    found.append((q, own.arcs[i], depth))
            seen |= here - {EPSILON}
            at, depth = int(targets[at]), depth + 1
    columns = np.array(found, np.int64).reshape(-1, 3).T.copy()
    return columns[0], columns[1], columns[2]
