"""Automata as acceptors: the input labels of any automaton of :mod:`catena.structure.automaton` constrain a search.

Weights only matter if they are zero; :class:`AutomatonStepper` is for weighted automata that change probabilities.
Epsilon arcs are followed and failure arcs are taken if a label has no arc. Automata that are not deterministic are
determinized lazily: an acceptor state is the set of automaton states that the ids may have led to, without dead ends.
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
    """The strings that an automaton accepts.

    Args:
        machine: the automaton; only its input labels are used, and whether a weight is zero.
        v: the size of the vocabulary.
        labels: the automaton's label of each id, 0 for an id that it never reads; by default the id plus 1, since
            label 0 is epsilon.
    """

    told_by_need = True

    def __init__(self, machine: Automaton, v: int, labels: Sequence[int] | None = None) -> None:
        self.v = v
        self.labels = np.arange(1, v + 1) if labels is None else np.asarray(labels, np.int64)
        read = self.labels[self.labels != EPSILON]
        if self.labels.shape != (v,) or len(np.unique(read)) < len(read) or read.min(initial=1) < 1:
            raise ConfigError(
                f"labels must be {v} different labels above 0, one for each id (0 for an id that is never read), got "
                f"{self.labels.tolist()[:20]}. Give {v} labels."
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
                f"machine must accept a string of the {v} ids, got an automaton without one ({t.n_states} states, "
                f"{machine.n_arcs} arcs). Use ids + 1 as its labels."
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
        """The epsilon closure of the states, sorted, without dead ends."""
        found, todo = set(), list(states)
        while todo:
            q = todo.pop()
            if q not in found:
                found.add(q)
                todo += self._silent.get(q, [])
        return tuple(sorted(q for q in found if self._distance[q] < UNREACHABLE))

    def _row(self, q: int, known: dict[int, Needed]) -> Needed:
        """The ids needed after each id in one state: by its own arcs, else by the state that it fails to."""
        if q not in known:
            fails = int(self._failures[q])
            row = self._row(fails, known).copy() if fails >= 0 else np.full(self.v, UNREACHABLE, np.int16)
            ids, targets = self._own[q]
            row[ids] = UNREACHABLE
            np.minimum.at(row, ids, np.where(targets >= 0, self._distance[targets], UNREACHABLE).astype(np.int16))
            known[q] = row
        return known[q]

    def _distances(self, n: int) -> np.ndarray:
        """The minimum number of ids from each state to an end, by iteration to a fixed point."""
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
    """Epsilon targets by state, and for each state the ids of its other arcs, in order, with their targets.

    An arc of weight zero blocks the failure arc for its label and is a dead end: target -1.
    """
    t = machine.topology
    alive = nonzero(machine.semiring, machine.weight)
    silent: dict[int, list[int]] = {}
    for i in np.flatnonzero((t.input == EPSILON) & alive):
        silent.setdefault(int(t.source[i]), []).append(int(t.target[i]))
    place = np.full(max(int(t.input.max(initial=0)), int(labels.max(initial=0))) + 2, -1, np.int64)
    place[labels] = np.arange(len(labels))
    ids = np.where(t.input > EPSILON, place[t.input], -1)  # FAILURE is -1, which indexes the last entry
    kept = np.flatnonzero(ids >= 0)
    kept = kept[np.lexsort((ids[kept], t.source[kept]))]
    targets = np.where(alive, t.target, FAILURE)[kept]
    bounds = np.searchsorted(t.source[kept], np.arange(t.n_states + 1))
    own = [(ids[kept[a:b]], targets[a:b]) for a, b in pairwise(bounds)]
    return silent, own


def _accepting(final: np.ndarray, failures: np.ndarray) -> np.ndarray:
    """Whether each state accepts: itself, or the first state with a final weight on its chain of failure arcs."""
    accepting, at = final.copy(), failures.copy()
    while (at >= 0).any():
        accepting |= (at >= 0) & final[at]
        at = np.where(at >= 0, failures[at], -1)
    return accepting
