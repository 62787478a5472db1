"""Acceptors: sets of sequences, told id by id. What a constrained search may write.

Knows nothing of probabilities. An acceptor is asked only for the places that a search comes to, so it may have far
more places than could ever be listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from catena.errors import ConfigError

UNREACHABLE = np.iinfo(np.int16).max
"""More ids than can be written: there is no way to the end."""

Needed = np.ndarray
"""int16, one for each id."""


class NextIds(NamedTuple):
    """What may come next at a place."""

    needed: Needed
    """``needed[w]`` is how many ids must at least follow after ``w`` before the end; FAR if ``w`` leads nowhere."""
    accepts: bool
    """Whether the sequence may end here."""

    @property
    def shortest(self) -> int:
        """How many ids must at least be written from here to the end."""
        return 0 if self.accepts else min(int(self.needed.min(initial=UNREACHABLE)) + 1, UNREACHABLE)


class Acceptor(ABC):
    """A set of sequences of ids below ``v``. Places are hashable values that only the acceptor opens."""

    v: int
    told_by_need: bool = False
    """Whether ids after which as many are needed lead to one place, as in a machine for one phrase."""

    @abstractmethod
    def start(self) -> Hashable:
        """The place of the empty sequence."""

    @abstractmethod
    def options(self, place: Hashable) -> NextIds:
        """What may come next."""

    @abstractmethod
    def step(self, place: Hashable, id: int) -> Hashable:
        """The place after one more id; one that :meth:`options` does not allow is never asked for."""

    def remaining(self, place: Hashable) -> Needed:
        """How much is left to do after each id, which groups the prefixes of a beam: by default ``options.needed``."""
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
"""Places of several sets together, and ids that lead nearer to the end at one of them, up to which the shortest way to
the end is found."""


class Intersection(Acceptor):
    """The sequences that are in every one of several sets, found lazily, place by place.

    Args:
        in_turn: the sets are of phrases that must occur, so that an id either begins or goes on with one, or is as good
            as any other. How many ids are still needed is then exact for machines, however phrases overlap, and the
            sum of what each set needs for others or where there are too many places. Without it, it is the largest of
            these numbers, which may be too small.
    """

    def __init__(self, acceptors: Sequence[Acceptor], in_turn: bool = False) -> None:
        sizes = sorted({acceptor.v for acceptor in acceptors})
        if len(sizes) != 1:
            raise ConfigError(f"the sets of All must be over one vocabulary, but their sizes are {sizes}")
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
        """The sum over the sets: the largest number, which is enough for ``needed``, hides progress in the others."""
        if self.in_turn:
            return self.options(place).needed
        assert isinstance(place, tuple)
        each = [acceptor.remaining(part) for acceptor, part in zip(self.acceptors, place, strict=True)]
        return reduce(_plus, each)

    def _each(self, place: Hashable) -> list[NextIds]:
        assert isinstance(place, tuple)
        return [acceptor.options(part) for acceptor, part in zip(self.acceptors, place, strict=True)]

    def _explored(self) -> dict[Hashable, JointTransitions]:
        """All places that can be reached, and the ways from each; none where there are too many."""
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
    """The ways from a place of several sets."""

    near: dict[int, Hashable]
    """Where ids lead that begin or go on with a phrase."""
    away: Hashable | None
    """Where all others lead; None if there are none."""
    accepts: bool


def _distances(ways: dict[Hashable, JointTransitions]) -> dict[Hashable, int]:
    """The fewest ids from each place to the end."""
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
