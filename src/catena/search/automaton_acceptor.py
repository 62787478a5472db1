"""Automata as acceptors: any machine of :mod:`catena.structure.automaton`, of which only the input and whether a weight
is zero are read. Weighted machines that should change probabilities are :class:`AutomatonStepper`.

Epsilons are followed, failure arcs are taken where a label has no arc, and machines that are not deterministic are made
so lazily: a place is the set of states that the ids so far may have led to, those without a way to the end left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from catena.errors import ConfigError, ImpossibleError
from catena.search.acceptor import UNREACHABLE, Acceptor, Needed, NextIds
from catena.structure.automaton.failures import failure_targets
from catena.structure.automaton.weights import nonzero
from catena.structure.automaton.wfsa import EPSILON, FAILURE, Automaton


class AutomatonAcceptor(Acceptor):
    """The strings that a machine reads.

    Args:
        v: the size of the vocabulary.
        labels: the machine's label of each id, 0 for one that it never reads; by default the id plus 1, since label 0
            is epsilon.
    """

    told_by_need = True

    def __init__(self, machine: Automaton, v: int, labels: Sequence[int] | None = None) -> None:
        self.v = v
        self.labels = np.arange(1, v + 1) if labels is None else np.asarray(labels, np.int64)
        read = self.labels[self.labels != EPSILON]
        if self.labels.shape != (v,) or len(np.unique(read)) < len(read) or read.min(initial=1) < 1:
            raise ConfigError(
                f"there must be one label for each of {v} ids, all different and above 0, or 0 for an id that is never "
                f"read, but they are {self.labels.tolist()[:20]}"
            )
        t, semiring = machine.topology, machine.semiring
        self._failures, _ = failure_targets(machine)
        self._silent, self._own = _arcs(machine, self.labels)
        self._accepting = _accepting(nonzero(semiring, machine.final), self._failures)
        self._distance = self._distances(t.n_states)
        self._begin = self._closed(np.flatnonzero(nonzero(semiring, machine.initial)).tolist())
        self._rows: dict[int, Needed] = {}
        if not self._begin:
            raise ImpossibleError(
                f"a machine that constrains a search must accept something, but no string of the {v} ids leads from a "
                f"beginning to an end of this one ({t.n_states} states, {machine.n_arcs} arcs): are its labels ids + 1?"
            )

    def start(self) -> Hashable:
        return self._begin

    def options(self, place: Hashable) -> NextIds:
        assert isinstance(place, tuple)
        rows = [self._row(q, self._rows) for q in place]
        needed = np.minimum.reduce(rows) if rows else np.full(self.v, UNREACHABLE, np.int16)
        return NextIds(needed, any(self._accepting[q] for q in place))

    def step(self, place: Hashable, id: int) -> Hashable:
        assert isinstance(place, tuple)
        return self._closed([r for q in place for r in self._targets(q, id)])

    def _targets(self, q: int, id: int) -> list[int]:
        while q >= 0:
            ids, targets = self._own[q]
            first, last = np.searchsorted(ids, [id, id + 1])
            if first < last:
                return [r for r in targets[first:last].tolist() if r >= 0]
            q = int(self._failures[q])
        return []

    def _closed(self, states: Iterable[int]) -> tuple[int, ...]:
        """The states that silent arcs lead to as well, in order, without those that lead nowhere."""
        found, todo = set(), list(states)
        while todo:
            q = todo.pop()
            if q not in found:
                found.add(q)
                todo += self._silent.get(q, [])
        return tuple(sorted(q for q in found if self._distance[q] < UNREACHABLE))

    def _row(self, q: int, known: dict[int, Needed]) -> Needed:
        """What is needed after each id at one state: its own arcs, and for ids without one those it fails to."""
        if q not in known:
            fails = int(self._failures[q])
            row = self._row(fails, known).copy() if fails >= 0 else np.full(self.v, UNREACHABLE, np.int16)
            ids, targets = self._own[q]
            row[ids] = UNREACHABLE
            np.minimum.at(row, ids, np.where(targets >= 0, self._distance[targets], UNREACHABLE).astype(np.int16))
            known[q] = row
        return known[q]

    def _distances(self, n: int) -> np.ndarray:
        """The fewest ids from each state to an end, in rounds until nothing changes: as many as the longest way has."""
        self._distance = distance = np.where(self._accepting, 0, UNREACHABLE).astype(np.int32)
        sources = np.repeat(np.arange(n), [len(ids) for ids, _ in self._own])
        targets = np.concatenate([targets for _, targets in self._own]) if n else np.zeros(0, np.int64)
        sources, targets = sources[targets >= 0], targets[targets >= 0]
        failing = np.flatnonzero(self._failures >= 0).tolist()
        while True:
            before = distance.copy()
            np.minimum.at(distance, sources, before[targets] + 1)
            for q, silent in self._silent.items():
                distance[q] = min(distance[q], *(distance[r] for r in silent))
            known: dict[int, Needed] = {}
            for q in failing:
                distance[q] = min(distance[q], int(self._row(q, known).min(initial=UNREACHABLE)) + 1)
            np.minimum(distance, UNREACHABLE, out=distance)
            if (distance == before).all():
                return distance


def _arcs(machine: Automaton, labels: np.ndarray) -> tuple[dict[int, list[int]], list[tuple[np.ndarray, np.ndarray]]]:
    """Silent targets by state, and for each state the ids of its other arcs, in order, with their targets.

    An arc of weight zero keeps failures from its label and leads nowhere: target -1.
    """
    t = machine.topology
    alive = nonzero(machine.semiring, machine.weight)
    silent: dict[int, list[int]] = {}
    for i in np.flatnonzero((t.input == EPSILON) & alive):
        silent.setdefault(int(t.source[i]), []).append(int(t.target[i]))
    place = np.full(max(int(t.input.max(initial=0)), int(labels.max(initial=0))) + 2, -1, np.int64)
    place[labels] = np.arange(len(labels))
    ids = np.where(t.input > EPSILON, place[t.input], -1)  # FAILURE is -1, and so is the last place
    kept = np.flatnonzero(ids >= 0)
    kept = kept[np.lexsort((ids[kept], t.source[kept]))]
    targets = np.where(alive, t.target, FAILURE)[kept]
    bounds = np.searchsorted(t.source[kept], np.arange(t.n_states + 1))
    own = [(ids[kept[a:b]], targets[a:b]) for a, b in pairwise(bounds)]
    return silent, own


def _accepting(final: np.ndarray, failures: np.ndarray) -> np.ndarray:
    """A state without a final weight ends as the first state down its failures that has one."""
    accepting, at = final.copy(), failures.copy()
    while (at >= 0).any():
        accepting |= (at >= 0) & final[at]
        at = np.where(at >= 0, failures[at], -1)
    return accepting
