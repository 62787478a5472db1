r"""Composition and intersection of automata.

.. math::  (A \circ B)(x, y) = \bigoplus_z A(x, z) \otimes B(z, y)

The second automaton reads what the first one writes. Epsilons are filtered so that each pair of paths is counted once.
Only pairs of states on some accepting path are kept.

Tested in tests/structure/automaton/test_compose.py and tests/structure/automaton/test_useful.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catena._lazy import LazyModule
from catena.errors import LimitError, ShapeError
from catena.kernels.common.ops import needs_grad
from catena.shapes import broadcast_shapes
from catena.structure.automaton.failures import expand_failures, failed_finals, failure_targets, failure_weights
from catena.structure.automaton.segments import IntArray, with_one
from catena.structure.automaton.topology import Topology
from catena.structure.automaton.weights import multiply, nonzero
from catena.structure.automaton.wfsa import EPSILON, Automaton, check_same_semiring
from catena.structure.backend import can_use_kernels
from catena.structure.semirings import LogSemiring, MaxSemiring, Semiring, TropicalSemiring

_graph = LazyModule("catena.kernels.automaton.cpu_graph")
_compose = LazyModule("catena.kernels.automaton.cpu_compose")
_MAX_STATES = 50_000_000


class StatePairs(NamedTuple):
    """The states (p, q) and arcs of a composition. ``left`` or ``right`` is -1 if that automaton does not move."""

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
    """The transducer that reads what ``a`` reads and writes what ``b`` writes for the output of ``a``.

    Failure arcs of ``b``, or of an acceptor ``a``, are followed where needed; others are expanded first. Differentiable
    with respect to the weights of both. Time is proportional to the number of reachable states and arcs, times the log
    of the number of arcs of a state.

    Args:
        a: the first automaton.
        b: the second automaton, over the same semiring.
        limit: largest number of states; raises :class:`LimitError` if there are more.
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
    ending = nonzero(semiring, ends).astype(np.int64)
    kept = _graph.useful(pairs.source, pairs.target, pairs.begins, ending).astype(bool)
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
    """The acceptor whose weight of a string is the product of its weights in two acceptors.

    Args:
        a: the first acceptor.
        b: the second acceptor, over the same semiring.
        limit: largest number of states; raises :class:`LimitError` if there are more.
    """
    for name, machine in (("first", a), ("second", b)):
        if not machine.is_acceptor:
            raise ShapeError(f"intersect takes two acceptors, got a transducer as the {name} one. Use compose instead.")
    return compose(a, b, limit)


def _check_batch(a: Automaton, b: Automaton) -> None:
    leads = [m.semiring.shape(m.weight)[:-1] for m in (a, b)]
    try:
        broadcast_shapes(*leads)
    except RuntimeError:
        raise ShapeError(
            f"The batch axes of the automata must broadcast, got {list(leads[0])} and {list(leads[1])}. Use the same "
            "batch axes for both, or none for one of them."
        ) from None


def _paired(a: Automaton, b: Automaton, failures: IntArray, limit: int) -> StatePairs:
    left, right = a.topology.by_output, b.topology.by_input
    silent = np.bincount(a.topology.source[a.topology.output == EPSILON], minlength=a.n_states)
    stuck = (silent == np.diff(left.starts)) & ~nonzero(a.semiring, a.final)
    from_a, from_b = (np.flatnonzero(nonzero(m.semiring, m.initial)) for m in (a, b))
    states, arcs = _compose.compose_graphs(
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
        f"The composition of automata with {a.n_states} and {b.n_states} states has more than limit={limit} states. "
        "Raise limit, or make the automata smaller first (determinize, minimize)."
    )


def _is_plain(a: Automaton, b: Automaton) -> bool:
    """Whether weights are scalars that ⊗ adds, and none of them requires a gradient."""
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
    n, source, target, read, written, *found = _compose.composed_sums(
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
