"""Determinization: at most one arc for each state and label, with the same weight for every string.

The states of the result are sets of states with residual weights, which remain after the common weight has been moved
to the arc (Mohri 1997, section 3.2). Some automata have no deterministic equivalent. Then the number of sets is
infinite.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.errors import LimitError
from catena.structure.automaton.epsilon import join_on_keys, remove_epsilon
from catena.structure.automaton.rational import connect
from catena.structure.automaton.segments import IntArray, Segments, distinct
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import divide, from_numbers, nonzero, numbers
from catena.structure.automaton.wfsa import EPSILON, Automaton, check_numbers, check_one_machine
from catena.structure.backend import can_use_kernels
from catena.structure.semirings import LogSemiring, RealSemiring, Semiring

_MOST_STATES = 50_000


def determinize(machine: Automaton, limit: int | None = None, tolerance: float | None = None) -> Automaton:
    """A deterministic automaton with the same weights.

    It has one initial state and at most one arc for each state and label. Epsilons are removed first. For a transducer,
    pairs of labels (input, output) are treated as labels, so that alignments are preserved. The semiring must have
    division, and weights must not require gradients, because the result depends on a comparison of weights.

    Args:
        machine: the automaton.
        limit: largest number of states; raises :class:`LimitError` if there are more. By default the larger of 50,000
            and ten times the states of ``machine``.
        tolerance: residual weights that differ by less are treated as equal; by default 1e-9 in float64 and 1e-4 in
            float32.
    """
    check_comparable("determinize", machine)
    machine = connect(remove_epsilon(machine))
    check_numbers("determinize", machine)
    if not machine.n_states:
        return machine
    most = max(_MOST_STATES, 10 * machine.n_states) if limit is None else limit
    search = _compiled if can_use_kernels(numbers(machine.semiring, machine.weight)) else _plain
    return search(machine, resolve_tolerance(machine, tolerance), most)


def _too_many(limit: int) -> LimitError:
    return LimitError(
        f"Determinization needs more than limit={limit} states. The automaton may have no deterministic equivalent, "
        "which happens if two states are reached by the same strings with diverging weights. Raise limit or tolerance, "
        "or use the automaton as it is."
    )


def _first_set(machine: Automaton) -> tuple[IntArray, Tensor, Tensor]:
    """States and residuals of the initial set, and their common weight."""
    states = np.flatnonzero(nonzero(machine.semiring, machine.initial))
    begun = machine.initial[torch.from_numpy(states)]
    whole = machine.semiring.sum(begun, dim=-1)[None]
    return states, divide(machine.semiring, begun, whole), whole


def _begins(machine: Automaton, whole: Tensor, n: int) -> Tensor:
    initial = machine.semiring.zero((n,), whole).clone()
    initial[0] = whole[0]
    return initial


def _compiled(machine: Automaton, tolerance: float, limit: int) -> Automaton:
    from catena.kernels.automaton.cpu_determinize import LOGS, MAXIMA, REALS, determinize_graph

    t, semiring = machine.topology, machine.semiring
    labels, names = label_pairs(t)
    arcs = np.lexsort((t.target, labels, t.source))
    starts = np.searchsorted(t.source[arcs], np.arange(t.n_states + 1))
    states, residual, whole = _first_set(machine)
    weight, final, first = (
        numbers(semiring, x).double().contiguous().numpy() for x in (machine.weight, machine.final, residual)
    )
    kind = {LogSemiring: LOGS, RealSemiring: REALS}.get(type(semiring), MAXIMA)
    source, label, target, paid, ends = determinize_graph(
        starts, labels[arcs], t.target[arcs], weight[arcs], final, states, first, kind, tolerance, limit
    )
    if not len(ends):
        raise _too_many(limit)
    topology = Topology(source, target, names[label, 0], names[label, 1], len(ends))
    weights, finals = (from_numbers(semiring, torch.from_numpy(x), machine.weight.dtype) for x in (paid, ends))
    return Automaton.trusted(topology, weights, _begins(machine, whole, len(ends)), finals, semiring)


# --- reference implementation -------------------------------------------------------------------------------


def _plain(machine: Automaton, tolerance: float, limit: int) -> Automaton:
    labels, names = label_pairs(machine.topology)
    states, residual, whole = _first_set(machine)
    found = _Subsets(machine.semiring, tolerance, limit)
    front = SubsetQueue(np.zeros(len(states), np.int64), states, residual)
    found.number(front.state, found.key(front.residual))
    arcs, finals = [], []
    while len(front.subset):
        finals.append(_finals(machine, front))
        steps = _steps(machine, labels, front)
        ids, new = found.named(steps)
        arcs.append((steps.source + found.done, ids, steps.label, steps.weight))
        found.done += int(front.subset[-1]) + 1
        front = new
    source, target, label = (np.concatenate([arc[i] for arc in arcs]) for i in range(3))
    topology = Topology(source, target, names[label, 0], names[label, 1], found.done)
    initial = _begins(machine, whole, found.done)
    return Automaton.trusted(
        topology, torch.cat([arc[3] for arc in arcs]), initial, torch.cat(finals), machine.semiring
    )


class SubsetQueue(NamedTuple):
    """Sets to be expanded: rows (number of the set, state, residual), sorted by set and state."""

    subset: IntArray
    state: IntArray
    residual: Tensor


class Steps(NamedTuple):
    """Arcs from the sets of a queue, and rows (arc, state, residual) of their targets."""

    source: IntArray
    label: IntArray
    weight: Tensor
    arc: IntArray
    state: IntArray
    residual: Tensor


def _steps(machine: Automaton, labels: IntArray, front: SubsetQueue) -> Steps:
    semiring, t = machine.semiring, machine.topology
    entry, arc = join_on_keys(front.state, t.source, t.n_states)
    weight = semiring.mul(front.residual[torch.from_numpy(entry)], machine.weight[torch.from_numpy(arc)])
    rows, group = distinct(front.subset[entry], labels[arc], t.target[arc])
    owed = Segments.of(group, rows.shape[1]).sum(semiring, weight)
    heads, of_arc = distinct(rows[0], rows[1])
    paid = Segments.of(of_arc, heads.shape[1]).sum(semiring, owed)
    residual = divide(semiring, owed, paid[torch.from_numpy(of_arc)])
    return Steps(heads[0], heads[1], paid, of_arc, rows[2], residual)


def _finals(machine: Automaton, front: SubsetQueue) -> Tensor:
    semiring = machine.semiring
    ends = semiring.mul(front.residual, machine.final[torch.from_numpy(front.state)])
    return Segments.of(front.subset, int(front.subset[-1]) + 1).sum(semiring, ends)


class _Subsets:
    """The known sets, by their states and rounded residuals."""

    def __init__(self, semiring: Semiring, tolerance: float, limit: int) -> None:
        self.semiring, self.tolerance, self.limit = semiring, tolerance, limit
        self.numbers: dict[bytes, int] = {}
        self.done = 0

    def key(self, residual: Tensor) -> IntArray:
        return quantize_weights(residual, self.tolerance)

    def number(self, states: IntArray, residuals: IntArray) -> int:
        return self.numbers.setdefault(states.tobytes() + residuals.tobytes(), len(self.numbers))

    def named(self, steps: Steps) -> tuple[IntArray, SubsetQueue]:
        """The target set of each arc, and the new sets."""
        keys = self.key(steps.residual)
        bounds = np.searchsorted(steps.arc, np.arange(len(steps.source) + 1))
        known = len(self.numbers)
        ids, fresh = np.empty(len(steps.source), np.int64), []
        for i, (low, high) in enumerate(itertools.pairwise(bounds)):
            before = len(self.numbers)
            ids[i] = self.number(steps.state[low:high], keys[low:high])
            if len(self.numbers) > before:
                fresh.append(np.arange(low, high))
        if len(self.numbers) > self.limit:
            raise _too_many(self.limit)
        rows = np.concatenate(fresh) if fresh else np.zeros(0, np.int64)
        sizes = [len(x) for x in fresh]
        subset = np.repeat(np.arange(len(self.numbers) - known), sizes)
        return ids, SubsetQueue(subset, steps.state[rows], steps.residual[torch.from_numpy(rows)])


# --- helpers, also of minimization --------------------------------------------------------------------------


def label_pairs(t: Topology) -> tuple[IntArray, IntArray]:
    """A number for each arc's (input, output), and the pair of each number."""
    names, found = distinct(t.input, t.output)
    return found, names.T


def is_deterministic(machine: Automaton) -> bool:
    """Whether there is at most one initial state, no epsilon, and at most one arc for each state and label pair.

    Args:
        machine: the automaton.
    """
    t = machine.topology
    if machine.has_failures or ((t.input == EPSILON) & (t.output == EPSILON)).any():
        return False
    one_beginning = bool(nonzero(machine.semiring, machine.initial).sum() <= 1)
    return one_beginning and distinct(t.source, label_pairs(t)[0])[0].shape[1] == len(t.source)


def check_comparable(what: str, machine: Automaton) -> None:
    """Raise an error unless weights can be divided, need no gradients and have no batch axes."""
    divide(machine.semiring, machine.initial[..., :0], machine.initial[..., :0])
    if machine.requires_grad:
        raise ValueError(
            f"machine must not require gradients in {what}, which compares weights, got weights that do. Call "
            f"{what}(machine.detach())."
        )
    check_one_machine(what, machine)


def resolve_tolerance(machine: Automaton, tolerance: float | None) -> float:
    """The given tolerance, or the default for the dtype of the weights."""
    if tolerance is None:
        return 1e-4 if machine.weight.dtype == torch.float32 else 1e-9
    return tolerance


def quantize_weights(x: Tensor, tolerance: float) -> IntArray:
    """Weights as integers that are equal if the weights are equal up to the tolerance."""
    if x.dtype == torch.bool:
        return x.numpy().astype(np.int64)
    wide = x.detach().cpu().double().numpy() / tolerance
    return np.rint(np.clip(np.nan_to_num(wide, posinf=2.0**62, neginf=-(2.0**62)), -(2.0**62), 2.0**62)).astype(
        np.int64
    )
