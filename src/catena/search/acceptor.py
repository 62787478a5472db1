"""Acceptors: sets of id sequences that constrain a search, read one id at a time.

An acceptor has no probabilities. A search queries only the states that it visits, so an acceptor may have far more
states than could be listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from catena.errors import ConfigError

UNREACHABLE = np.iinfo(np.int16).max
"""More ids than a sequence can have: the end cannot be reached."""

Needed = np.ndarray
"""int16, one entry for each id."""


class NextIds(NamedTuple):
    """The ids that may follow in a state of an acceptor."""

    needed: Needed
    """``needed[w]`` is the minimum number of ids between ``w`` and the end; UNREACHABLE if ``w`` is not allowed."""
    accepts: bool
    """Whether the sequence may end here."""

    @property
    def shortest(self) -> int:
        """The minimum number of ids from this state to the end."""
        return 0 if self.accepts else min(int(self.needed.min(initial=UNREACHABLE)) + 1, UNREACHABLE)


class Acceptor(ABC):
    """A set of sequences of ids below ``v``, as a lazy automaton whose states are opaque hashable values."""

    v: int
    told_by_need: bool = False
    """Whether ids with the same ``needed`` lead to the same state, as in an automaton for one phrase."""

    @abstractmethod
    def start(self) -> Hashable:
        """The state of the empty sequence."""

    @abstractmethod
    def options(self, place: Hashable) -> NextIds:
        """The ids that may follow in a state."""

    @abstractmethod
    def step(self, place: Hashable, id: int) -> Hashable:
        """The state after one more id, which :meth:`options` must allow."""

    def remaining(self, place: Hashable) -> Needed:
        """The number of ids left after each id, which groups the prefixes of a beam; ``options.needed`` by default."""
        return self.options(place).needed

    def accepts(self, ids: Sequence[int]) -> bool:
        """Whether the whole sequence is in the set."""
        place = self.start()
        for id in ids:
            if self.options(place).needed[id] >= UNREACHABLE:
                return False
            place = self.step(place, id)
        return self.options(place).accepts


MOST_PLACES, MOST_NEAR = 1024, 64
"""Limits for the exact shortest distance in an intersection: the number of joint states, and the number of ids that
bring one of the sets closer to its end."""


class Intersection(Acceptor):
    """The intersection of several sets, computed lazily, state by state.

    Args:
        acceptors: the sets, all over one vocabulary.
        in_turn: the sets are phrases that must occur, so an id either starts or continues a phrase or is equivalent to
            all others. The number of ids still needed is then exact for automata, even if phrases overlap; for other
            acceptors, or if there are too many states, it is the sum over the sets. Without ``in_turn`` it is the
            maximum over the sets, a lower bound.
    """

    def __init__(self, acceptors: Sequence[Acceptor], in_turn: bool = False) -> None:
        sizes = sorted({acceptor.v for acceptor in acceptors})
        if len(sizes) != 1:
            raise ConfigError(f"acceptors must be over one vocabulary, got the sizes {sizes}. Use the same v for all.")
        self.acceptors, self.in_turn, self.v = list(acceptors), in_turn, sizes[0]
        self._ways: dict[Hashable, JointTransitions] | None = None
        self._distances: dict[Hashable, int] = {}

    def start(self) -> Hashable:
        return tuple(acceptor.start() for acceptor in self.acceptors)

    def options(self, place: Hashable) -> NextIds:
        each = self._each(place)
        accepts = all(one.accepts for one in each)
        if not self.in_turn:
            return NextIds(reduce(np.maximum, (one.needed for one in each)), accepts)
        if self._ways is None:
            self._ways = self._explored() if all(acceptor.told_by_need for acceptor in self.acceptors) else {}
            self._distances = _distances(self._ways)
        if (ways := self._ways.get(place)) is None:
            return NextIds(reduce(_plus, (one.needed for one in each)), accepts)
        needed = np.full(self.v, UNREACHABLE if ways.away is None else self._distances[ways.away], np.int16)
        for id, there in ways.near.items():
            needed[id] = self._distances[there]
        needed[reduce(np.maximum, (one.needed for one in each)) >= UNREACHABLE] = UNREACHABLE
        return NextIds(needed, accepts)

    def step(self, place: Hashable, id: int) -> Hashable:
        assert isinstance(place, tuple)
        return tuple(acceptor.step(part, id) for acceptor, part in zip(self.acceptors, place, strict=True))

    def remaining(self, place: Hashable) -> Needed:
        """The sum over the sets, because the maximum, which suffices for ``needed``, hides progress in the others."""
        if self.in_turn:
            return self.options(place).needed
        assert isinstance(place, tuple)
        each = [acceptor.remaining(part) for acceptor, part in zip(self.acceptors, place, strict=True)]
        return reduce(_plus, each)

    def _each(self, place: Hashable) -> list[NextIds]:
        assert isinstance(place, tuple)
        return [acceptor.options(part) for acceptor, part in zip(self.acceptors, place, strict=True)]

    def _explored(self) -> dict[Hashable, JointTransitions]:
        """All reachable states with their transitions; empty if there are too many."""
        found: dict[Hashable, JointTransitions] = {}
        todo = [self.start()]
        while todo:
            place = todo.pop()
            if place in found:
                continue
            ways = found[place] = self._ways_from(place)
            if len(found) > MOST_PLACES or len(ways.near) > MOST_NEAR:
                return {}
            todo += [*ways.near.values()] if ways.away is None else [*ways.near.values(), ways.away]
        return found

    def _ways_from(self, place: Hashable) -> JointTransitions:
        each = self._each(place)
        largest = reduce(np.maximum, (one.needed for one in each))
        known = largest < UNREACHABLE
        near = np.zeros(self.v, bool)
        for one in each:
            near |= one.needed < one.needed[known].max(initial=0)
        others = np.flatnonzero(known & ~near)
        return JointTransitions(
            {id: self.step(place, id) for id in np.flatnonzero(known & near).tolist()},
            self.step(place, int(others[0])) if len(others) else None,
            all(one.accepts for one in each),
        )


class JointTransitions(NamedTuple):
    """The transitions from a state of an intersection."""

    near: dict[int, Hashable]
    """The targets of ids that start or continue a phrase."""
    away: Hashable | None
    """The target of all other ids; None if there are none."""
    accepts: bool


def _distances(ways: dict[Hashable, JointTransitions]) -> dict[Hashable, int]:
    """The minimum number of ids from each state to the end."""
    into: dict[Hashable, list[Hashable]] = {place: [] for place in ways}
    for place, (near, away, _) in ways.items():
        for there in (*near.values(), *(() if away is None else (away,))):
            into[there].append(place)
    here = [place for place, (_, _, accepts) in ways.items() if accepts]
    found, steps = dict.fromkeys(ways, UNREACHABLE), 0
    while here:
        for place in here:
            found[place] = steps
        steps += 1
        here = [x for x in {x: None for place in here for x in into[place]} if found[x] == UNREACHABLE]
    return found


def _plus(a: Needed, b: Needed) -> Needed:
    return np.minimum(a.astype(np.int32) + b, UNREACHABLE).astype(np.int16)
