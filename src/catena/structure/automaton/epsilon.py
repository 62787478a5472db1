r"""Epsilon removal: arcs that read and write nothing are summed away.

.. math::  w'(q, a, r) = \bigoplus_p d_\epsilon(q, p) \otimes w(p, a, r),
    \qquad \rho'(q) = \bigoplus_p d_\epsilon(q, p) \otimes \rho(p)

where :math:`d_\epsilon(q, p)` sums all silent paths from q to p, cycles included, exactly. Mohri (2002).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.structure.automaton.distance import with_useful_weights
from catena.structure.automaton.failures import expand_failures
from catena.structure.automaton.rational import connect, restrict_states
from catena.structure.automaton.reference import unrolled_weights
from catena.structure.automaton.segments import IntArray, Segments, distinct
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import multiply, nonzero
from catena.structure.automaton.wfsa import EPSILON, Automaton


def remove_epsilon(machine: Automaton) -> Automaton:
    """An equivalent automaton without arcs that both read and write epsilon. Parallel arcs are merged.

    Differentiable. Time and size grow with the number of pairs of states that epsilon paths connect.

    Args:
        machine: the automaton.

    Raises:
        DivergentSumError: if an epsilon cycle on an accepting path has no finite sum.
    """
    machine = expand_failures(machine)
    semiring, t = machine.semiring, machine.topology
    quiet = (t.input == EPSILON) & (t.output == EPSILON)
    if not quiet.any():
        return machine
    try:
        pairs = _silent_pairs(machine, np.flatnonzero(quiet))
    except DivergentSumError:  # possibly of cycles on no accepting path
        machine = with_useful_weights(machine)
        pairs = _silent_pairs(machine, np.flatnonzero(quiet))
    loud = np.flatnonzero(~quiet)
    entered = nonzero(semiring, machine.initial)
    entered[t.target[loud]] = True
    pairs = pairs.of_states(entered)
    final = Segments.of(pairs.begin, t.n_states).sum(
        semiring, multiply(semiring, pairs.weight, machine.final[..., torch.from_numpy(pairs.end)])
    )
    places, arcs = join_on_keys(pairs.end, t.source[loud], t.n_states)
    arcs = loud[arcs]
    rows, group = distinct(pairs.begin[places], t.target[arcs], t.input[arcs], t.output[arcs])
    parts = (pairs.weight[..., torch.from_numpy(places)], machine.weight[..., torch.from_numpy(arcs)])
    weight = Segments.of(group, rows.shape[1]).sum(semiring, multiply(semiring, *parts))
    source, target, read, written = (np.ascontiguousarray(row) for row in rows)
    topology = Topology(source, target, read, written, t.n_states)
    return connect(restrict_states(Automaton.trusted(topology, weight, machine.initial, final, semiring), entered))


class EpsilonPairs(NamedTuple):
    """``weight[..., i]`` sums all epsilon paths from ``begin[i]`` to ``end[i]``, including the empty one."""

    begin: IntArray
    end: IntArray
    weight: Tensor

    def of_states(self, wanted: IntArray) -> EpsilonPairs:
        kept = np.flatnonzero(wanted[self.begin])
        return EpsilonPairs(self.begin[kept], self.end[kept], self.weight[..., torch.from_numpy(kept)])


def _silent_pairs(machine: Automaton, quiet: IntArray) -> EpsilonPairs:
    """All pairs of states that epsilon paths connect.

    Computed on the unrolled graph from its last nodes backwards: the pairs of a node are its own exit and the pairs of
    the targets of its arcs.
    """
    semiring, t = machine.semiring, machine.topology
    graph = Topology(t.source[quiet], t.target[quiet], t.input[quiet], t.output[quiet], t.n_states).unrolled
    weight = unrolled_weights(graph, semiring, machine.weight[..., torch.from_numpy(quiet)])
    leaves = np.full(graph.n_nodes, -1, np.int64)
    leaves[graph.exits] = np.arange(t.n_states)
    starts, counts = np.zeros(graph.n_nodes, np.int64), np.zeros(graph.n_nodes, np.int64)
    begins, ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
    found = weight[..., :0]
    for level in graph.backwards.steps:
        nodes, arcs = level.nodes, level.arcs
        ending = nodes[leaves[nodes] >= 0]
        reached = graph.target[arcs]
        onward = np.repeat(starts[reached], counts[reached]) + _ranks(counts[reached])
        arc = np.repeat(arcs, counts[reached])
        keys = np.append(ending, graph.source[arc]) * t.n_states + np.append(leaves[ending], ends[onward])
        (keys,), group = distinct(keys)
        one = semiring.one((*semiring.shape(weight)[:-1], len(ending)), weight)
        moved = multiply(semiring, weight[..., torch.from_numpy(arc)], found[..., torch.from_numpy(onward)])
        here = Segments.of(group, len(keys)).sum(semiring, torch.cat((one, moved), dim=-1))
        found = torch.cat((found, here), dim=-1)
        begin = keys // t.n_states
        starts[nodes] = len(begins) + np.searchsorted(begin, nodes)
        counts[nodes] = np.searchsorted(begin, nodes, side="right") - np.searchsorted(begin, nodes)
        begins, ends = np.append(begins, begin), np.append(ends, keys % t.n_states)
    entries = np.flatnonzero(begins < t.n_states)
    return EpsilonPairs(begins[entries], ends[entries], found[..., torch.from_numpy(entries)])


def _ranks(counts: IntArray) -> IntArray:
    """0, 1, … for each count in turn."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def join_on_keys(keys: IntArray, others: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """All pairs (i, j) with ``keys[i] == others[j]``."""
    order = np.argsort(others, kind="stable")
    starts = np.searchsorted(others[order], np.arange(n + 1))
    counts = np.diff(starts)[keys]
    return np.repeat(np.arange(len(keys)), counts), order[np.repeat(starts[keys], counts) + _ranks(counts)]
