r"""Composition: what one machine writes, the other reads.

.. math::  (A \circ B)(x, y) = \bigoplus_z A(x, z) \otimes B(z, y)

Epsilons are filtered so that each pair of paths is counted once. Only pairs of states that lie on some
accepting path are kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena.errors import LimitError, ShapeError
from catena.kernels.lattice_compose import compose_graphs, composed_sums
from catena.kernels.lattice_graph import useful
from catena.kernels.ops import needs_grad
from catena.structure.automaton.failures import expand_failures, failed_finals, failure_targets, failure_weights
from catena.structure.automaton.segments import with_one
from catena.structure.automaton.topology import IntArray, Topology
from catena.structure.automaton.weights import multiply, nonzero
from catena.structure.automaton.wfsa import EPSILON, Automaton, check_same_semiring
from catena.structure.backend import can_use_kernels
from catena.structure.semirings import LogSemiring, MaxSemiring, Semiring, TropicalSemiring

_MAX_STATES = 50_000_000


class StatePairs(NamedTuple):
    """The states (p, q) of a composition and its arcs; arcs of the two machines are -1 where one stands still."""

    p: IntArray
    q: IntArray
    begins: IntArray
    source: IntArray
    target: IntArray
    left: IntArray
    right: IntArray
    failures: IntArray

    def restricted(self, kept: IntArray) -> StatePairs:
        """Only the states where ``kept`` is True, and the arcs between them."""
        if kept.all():
            return self
        arcs = kept[self.source] & kept[self.target]
        number = np.cumsum(kept) - 1
        source, target = number[self.source[arcs]], number[self.target[arcs]]
        states = (self.p[kept], self.q[kept], self.begins[kept])
        return StatePairs(*states, source, target, self.left[arcs], self.right[arcs], self.failures[arcs])


def compose(a: Automaton, b: Automaton, limit: int = _MAX_STATES) -> Automaton:
    """The machine that reads what ``a`` reads and writes what ``b`` writes, where they agree in between.

    Failure arcs of ``b``, or of an acceptor ``a``, are followed where they are needed; others are made plain
    first. Differentiable by the weights of both. Time in proportion to the states and arcs that can be
    reached, times the log of a state's number of arcs.

    Args:
        limit: more states than this raise :class:`LimitError`.
    """
    semiring = check_same_semiring(a, b)
    _check_batch(a, b)
    if a.has_failures and a.is_acceptor and not b.has_failures:
        return _swapped(compose(_swapped(b), a, limit))
    a = expand_failures(a)
    if _is_plain(a, b):
        return _in_one_go(a, b, limit)
    targets, chain = np.full(b.n_states, -1, np.int64), []
    if b.has_failures:
        targets, failure_arcs = failure_targets(b)
        chain = failure_weights(b, targets, failure_arcs)
    b_final = failed_finals(b, targets, chain) if chain else b.final
    pairs = _paired(a, b, targets, limit)
    ends = _chosen(semiring, a.final, pairs.p, b_final, pairs.q)
    kept = useful(pairs.source, pairs.target, pairs.begins, nonzero(semiring, ends).astype(np.int64)).astype(bool)
    pairs = pairs.restricted(kept)
    weight = _chosen(semiring, with_one(semiring, a.weight), pairs.left, with_one(semiring, b.weight), pairs.right)
    if chain:
        places = pairs.failures * b.n_states + pairs.q[pairs.source]
        weight = multiply(semiring, weight, torch.cat(chain, dim=-1)[..., torch.from_numpy(places)])
    begun = _chosen(semiring, a.initial, pairs.p, b.initial, pairs.q)
    zero = semiring.zero(semiring.shape(begun), begun)
    initial = torch.where(torch.from_numpy(pairs.begins > 0).to(begun.device), begun, zero)
    topology = Topology(
        pairs.source, pairs.target, np.append(a.topology.input, EPSILON)[pairs.left],
        np.append(b.topology.output, EPSILON)[pairs.right], len(pairs.p),
    )  # fmt: skip
    return Automaton.trusted(topology, weight, initial, ends[..., torch.from_numpy(kept)], semiring)


def intersect(a: Automaton, b: Automaton, limit: int = _MAX_STATES) -> Automaton:
    """The acceptor that gives each string the product of the weights that two acceptors give it."""
    for name, machine in (("first", a), ("second", b)):
        if not machine.is_acceptor:
            raise ShapeError(f"intersect takes acceptors, but the {name} machine is a transducer: compose it instead")
    return compose(a, b, limit)


def _check_batch(a: Automaton, b: Automaton) -> None:
    leads = [m.semiring.shape(m.weight)[:-1] for m in (a, b)]
    try:
        torch.broadcast_shapes(*leads)
    except RuntimeError:
        raise ShapeError(
            f"machines must have batch axes that broadcast, got {list(leads[0])} and {list(leads[1])}. Give both the "
            "same batch axes, or one of them none."
        ) from None


def _paired(a: Automaton, b: Automaton, failures: IntArray, limit: int) -> StatePairs:
    left, right = a.topology.by_output, b.topology.by_input
    silent = np.bincount(a.topology.source[a.topology.output == EPSILON], minlength=a.n_states)
    stuck = (silent == np.diff(left.starts)) & ~nonzero(a.semiring, a.final)
    from_a, from_b = (np.flatnonzero(nonzero(m.semiring, m.initial)) for m in (a, b))
    states, arcs = compose_graphs(
        left.starts, left.labels, left.targets, (silent > 0).astype(np.int64), stuck.astype(np.int64), from_a,
        right.starts, right.labels, right.targets, failures, from_b, limit,
    )  # fmt: skip
    n_begins = len(from_a) * len(from_b)
    if len(states) < n_begins:
        raise _too_large(a, b, limit)
    begins = np.zeros(len(states), np.int64)
    begins[:n_begins] = 1
    i, j, depth, source, target = np.ascontiguousarray(arcs.T)
    i, j = np.append(left.arcs, -1)[i], np.append(right.arcs, -1)[j]
    return StatePairs(states[:, 0], states[:, 1], begins, source, target, i, j, depth)


def _too_large(a: Automaton, b: Automaton, limit: int) -> LimitError:
    return LimitError(
        f"the composition of machines with {a.n_states} and {b.n_states} states has more than limit={limit} states: "
        "give a higher limit, or make the machines smaller first (determinize, minimize)"
    )


def _is_plain(a: Automaton, b: Automaton) -> bool:
    """Whether weights are numbers that ⊗ adds, none of which a gradient may be asked for."""
    if (
        type(a.semiring) not in (LogSemiring, MaxSemiring, TropicalSemiring)
        or b.has_failures
        or a.weight.dim() > 1
        or b.weight.dim() > 1
    ):
        return False
    tensors = (a.weight, a.initial, a.final, b.weight, b.initial, b.final)
    same = all(x.dtype == a.weight.dtype for x in tensors)
    return same and can_use_kernels(*tensors) and not needs_grad(*tensors)


def _in_one_go(a: Automaton, b: Automaton, limit: int) -> Automaton:
    semiring, dtype = a.semiring, a.weight.dtype
    zero = math.inf if type(semiring) is TropicalSemiring else -math.inf
    left, right = a.topology.by_output, b.topology.by_input
    weights = [
        x.detach().double().contiguous().numpy() for x in (a.weight, a.initial, a.final, b.weight, b.initial, b.final)
    ]
    n, source, target, read, written, *found = composed_sums(
        left.starts, left.labels, left.targets, left.arcs, a.topology.input, *weights[:3],
        right.starts, right.labels, right.targets, right.arcs, b.topology.output, *weights[3:], zero, limit,
    )  # fmt: skip
    if n < (weights[1] != zero).sum() * (weights[4] != zero).sum():
        raise _too_large(a, b, limit)
    weight, initial, final = (torch.from_numpy(x).to(dtype) for x in found)
    return Automaton.trusted(Topology(source, target, read, written, len(found[2])), weight, initial, final, semiring)


def _chosen(semiring: Semiring, x: Tensor, at: IntArray, y: Tensor, bt: IntArray) -> Tensor:
    return multiply(semiring, x[..., torch.from_numpy(at)], y[..., torch.from_numpy(bt)])


def _swapped(machine: Automaton) -> Automaton:
    t = machine.topology
    topology = Topology(t.source, t.target, t.output, t.input, t.n_states)
    return Automaton.trusted(topology, machine.weight, machine.initial, machine.final, machine.semiring)
