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

FAR = np.iinfo(np.int16).max
"""More ids than can be written: there is no way to the end."""

Needed = np.ndarray
"""int16, one for each id."""


class Options(NamedTuple):
    """What may come next at a place."""

    needed: Needed
    """``needed[w]`` is how many ids must at least follow after ``w`` before the end; FAR if ``w`` leads nowhere."""
    accepts: bool
    """Whether the sequence may end here."""

    @property
    def shortest(self) -> int:
        """How many ids must at least be written from here to the end."""
        return 0 if self.accepts else min(int(self.needed.min(initial=FAR)) + 1, FAR)


class Acceptor(ABC):
    """A set of sequences of ids below ``v``. Places are hashable values that only the acceptor opens."""

    v: int

    @abstractmethod
    def start(self) -> Hashable:
        """The place of the empty sequence."""

    @abstractmethod
    def options(self, place: Hashable) -> Options:
        """What may come next."""

    @abstractmethod
    def step(self, place: Hashable, id: int) -> Hashable:
        """The place after one more id; one that :meth:`options` does not allow is never asked for."""

    def accepts(self, ids: Sequence[int]) -> bool:
        """Whether the whole sequence is in the set."""
        place = self.start()
        for id in ids:
            if self.options(place).needed[id] >= FAR:
                return False
            place = self.step(place, id)
        return self.options(place).accepts


class All(Acceptor):
    """The sequences that are in every one of several sets, found lazily, place by place.

    Args:
        in_turn: how many ids are still needed is taken as the sum of what each set needs, as for phrases that must
            all occur, instead of the largest. The sum may be too large, the largest too small.
    """

    def __init__(self, acceptors: Sequence[Acceptor], in_turn: bool = False) -> None:
        sizes = sorted({acceptor.v for acceptor in acceptors})
        if len(sizes) != 1:
            raise ConfigError(f"the sets of All must be over one vocabulary, but their sizes are {sizes}")
        self.acceptors, self.in_turn, self.v = list(acceptors), in_turn, sizes[0]

    def start(self) -> Hashable:
        return tuple(acceptor.start() for acceptor in self.acceptors)

    def options(self, place: Hashable) -> Options:
        assert isinstance(place, tuple)
        each = [acceptor.options(part) for acceptor, part in zip(self.acceptors, place, strict=True)]
        needed = reduce(_plus if self.in_turn else np.maximum, (one.needed for one in each))
        return Options(needed, all(one.accepts for one in each))

    def step(self, place: Hashable, id: int) -> Hashable:
        assert isinstance(place, tuple)
        return tuple(acceptor.step(part, id) for acceptor, part in zip(self.acceptors, place, strict=True))


def _plus(a: Needed, b: Needed) -> Needed:
    return np.minimum(a.astype(np.int32) + b, FAR).astype(np.int16)
