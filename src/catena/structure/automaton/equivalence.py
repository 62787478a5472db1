r"""Equivalence test: whether two automata give all strings the same weights.

In the log and real semirings, the vectors of state weights after all strings span a space of at most as many dimensions
as there are states, so finitely many strings decide (Schützenberger 1961; Tzeng 1992). In other semirings, both
automata are determinized and traversed together.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from catena.errors import DivergentSumError
from catena.structure.automaton.determinization import determinize, label_pairs
from catena.structure.automaton.epsilon import remove_epsilon
from catena.structure.automaton.pushing import damping, push, push_damped
from catena.structure.automaton.rational import connect, union
from catena.structure.automaton.segments import IntArray
from catena.structure.automaton.weights import nonzero
from catena.structure.automaton.wfsa import Automaton, check_numbers, check_one_machine, check_same_semiring
from catena.structure.semirings import LogSemiring, RealSemiring


def equivalent(a: Automaton, b: Automaton, tolerance: float = 1e-6, limit: int | None = None) -> bool:
    """Whether every string (for transducers every sequence of label pairs) has the same weight in both automata.

    In the log and real semirings this is decided for all weights ≥ 0, in time O(labels · states³). In the max,
    tropical and boolean semirings the automata must be determinizable.

    Args:
        a: the first automaton.
        b: the second automaton, over the same semiring.
        tolerance: relative differences of weights (absolute ones of scores and costs) that count as equal.
        limit: largest number of states in :func:`~catena.structure.automaton.determinize.determinize`.
    """
    semiring = check_same_semiring(a, b)
    for machine in (a, b):
        check_one_machine("equivalent", machine)
    a, b = (connect(remove_epsilon(machine.detach())) for machine in (a, b))
    for machine in (a, b):
        check_numbers("equivalent", machine)
    if a.n_states == 0 or b.n_states == 0:
        return a.n_states == b.n_states
    if type(semiring) in (LogSemiring, RealSemiring):
        return _spans_agree(a.over(LogSemiring()), b.over(LogSemiring()), tolerance)
    a, b = determinize(a, limit), determinize(b, limit)
    try:
        return _walks_agree(push(a), push(b), tolerance)
    except DivergentSumError:
        factor = damping(union(a, b))
        return _walks_agree(push_damped(a, factor), push_damped(b, factor), tolerance)


def _spans_agree(a: Automaton, b: Automaton, tolerance: float) -> bool:
    a, b = a.mapped(Tensor.double), b.mapped(Tensor.double)
    lighter = damping(union(a, b))  # one factor for both, so that the sums over all paths converge
    a, b = (push(m.with_weights(m.weight + lighter, m.initial, m.final)) for m in (a, b))
    whole = torch.logsumexp(a.initial, dim=0)
    if abs(whole - torch.logsumexp(b.initial, dim=0)) > tolerance:
        return False
    both = union(a, b)
    vector = (both.initial - whole).exp()
    sign = torch.cat((torch.ones(a.n_states), -torch.ones(b.n_states))).double()
    ends = both.final.exp() * sign
    moves = _matrices(both)
    basis = vector.new_zeros(0, len(vector))
    waiting = [vector]
    while waiting:
        vector = waiting.pop()
        vector = vector / vector.abs().sum().clamp_min(1e-300)
        if abs(vector @ ends) > tolerance * (vector @ ends.abs()) + 1e-12:
            return False
        rest = vector / vector.norm()
        for _ in range(2):
            rest = rest - (rest @ basis.T) @ basis
        if rest.norm() > tolerance * 1e-2:
            basis = torch.cat((basis, rest[None] / rest.norm()))
            waiting.extend(vector @ move for move in moves if bool((vector @ move).abs().sum() > 0))
    return True


def _matrices(machine: Automaton) -> list[Tensor]:
    labels, names = label_pairs(machine.topology)
    found = torch.zeros(len(names), machine.n_states, machine.n_states, dtype=torch.float64)
    places = (torch.from_numpy(labels), machine.source, machine.target)
    return list(found.index_put(places, machine.weight.exp(), accumulate=True))


def _walks_agree(a: Automaton, b: Automaton, tolerance: float) -> bool:
    arcs_a, arcs_b = _arcs(a), _arcs(b)
    begin_a, begin_b = (int(np.flatnonzero(nonzero(m.semiring, m.initial))[0]) for m in (a, b))
    if not _near(a.initial[begin_a], b.initial[begin_b], tolerance):
        return False
    waiting, seen = [(begin_a, begin_b)], {(begin_a, begin_b)}
    while waiting:
        p, q = waiting.pop()
        if not _near(a.final[p], b.final[q], tolerance) or arcs_a[p].keys() != arcs_b[q].keys():
            return False
        for label, (next_p, weight) in arcs_a[p].items():
            next_q, other = arcs_b[q][label]
            if not _near(a.weight[weight], b.weight[other], tolerance):
                return False
            if (next_p, next_q) not in seen:
                seen.add((next_p, next_q))
                waiting.append((next_p, next_q))
    return True


def _arcs(machine: Automaton) -> list[dict[tuple[int, int], tuple[int, int]]]:
    found: list[dict[tuple[int, int], tuple[int, int]]] = [{} for _ in range(machine.n_states)]
    t = machine.topology
    columns: list[IntArray] = [t.source, t.input, t.output, t.target]
    for arc, (source, read, written, target) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        found[source][read, written] = target, arc
    return found


def _near(x: Tensor, y: Tensor, tolerance: float) -> bool:
    return bool(x == y) or (x.dtype != torch.bool and bool((x - y).abs() <= tolerance))
