"""Registries of classes and functions that are chosen by name; errors for unknown names suggest similar ones.

POOLINGS: Registry[type[Pooling]] = Registry("pooling")

@POOLINGS.register("max")
class MaxPooling(Pooling): ...
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TypeVar

from catena.errors import UnknownNameError

T = TypeVar("T")


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that are most similar to ``name``, best first; empty if none is close.

    Args:
        name: the unknown name.
        known: the names to choose from.
        most: largest number of names to return.
    """
    folded = {_fold(n): n for n in known}
    hits = difflib.get_close_matches(_fold(name), folded, n=most, cutoff=0.6)
    likeness = [difflib.SequenceMatcher(None, hit, _fold(name)).ratio() for hit in hits]
    # If a name differs by one letter, a name that only agrees in half of the letters is noise.
    return [folded[hit] for hit, ratio in zip(hits, likeness, strict=True) if ratio > likeness[0] - 0.2]


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar names, or all names if none is similar and they are few."""
    names = list(known)
    close = nearest(name, names)
    if close:
        return f"did you mean {' or '.join(repr(n) for n in close)}?"
    if not names:
        return "there are none"
    if len(names) <= 20:
        return f"known are {', '.join(repr(n) for n in sorted(names))}"
    return f"{len(names)} names are known, none of them near"


class Registry(dict[str, T]):
    """Dict from names to registered objects, filled by the decorator :meth:`register`.

    Args:
        kind: what the objects are, for error messages, such as ``"pooling"``.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers an object under ``name``, which must be new."""

        def enter(thing: T) -> T:
            if name in self:
                raise ValueError(f"The {self.kind} {name!r} is already registered. Choose another name.")
            self[name] = thing
            return thing

        return enter

    def __missing__(self, name: str) -> T:
        raise UnknownNameError(f"no {self.kind} is called {name!r}: {did_you_mean(name, self)}")
