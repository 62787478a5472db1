r"""Simple types of terms: ``e`` for entities, ``t`` for truth values, ``<e,t>`` for functions between them.

Types are optional. :func:`infer_type` finds the most general type of a term by unification (Hindley 1969; Milner 1978);
each name has the same type everywhere. A typable term always has a normal form; Ω is not typable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from catena.errors import DataError, FormatError
from catena.grammar.closure import connected_parts
from catena.grammar.terms import (
    CONNECTIVES,
    NOT,
    QUANTIFIERS,
    RELATIONS,
    Abstraction,
    Application,
    Constant,
    Term,
    Variable,
)

_MOST_NESTED = 100
"""Types nested more deeply raise an error; no meaningful term has one."""


@dataclass(frozen=True)
class Type:
    """A base type, ``e`` or ``t``; an unknown one, ``a``, ``b`` …; or a function from one type to another."""

    name: str = ""
    argument: Type | None = None
    result: Type | None = None

    def __str__(self) -> str:
        return self.name or f"<{self.argument},{self.result}>"


E, T = Type("e"), Type("t")


def function(*types: Type) -> Type:
    """Return the type of a function of several arguments: ``function(E, E, T)`` is ``<e,<e,t>>``."""
    *arguments, result = types
    for argument in reversed(arguments):
        result = Type("", argument, result)
    return result


def parse_type(text: str) -> Type:
    """Return the type of a text such as ``<e,<e,t>>``."""
    found, end = _read(text, 0, 0)
    if found is None or text[end:].strip():
        raise FormatError(
            f"{text[:80]!r} is not a type, at character {end + 1}. Write types as e, t or functions such as <e,<e,t>>."
        )
    return found


def _read(text: str, at: int, depth: int) -> tuple[Type | None, int]:
    """Return the type that starts at ``at`` (or None) and its end (or the position of the error)."""
    at = len(text) - len(text[at:].lstrip())
    if text[at : at + 1] in ("e", "t"):
        return Type(text[at]), at + 1
    if text[at : at + 1] != "<" or depth > _MOST_NESTED:
        return None, at
    parts = []
    for close in ",>":
        part, at = _read(text, at + 1, depth + 1)
        at = len(text) - len(text[at:].lstrip())
        if part is None or text[at : at + 1] != close:
            return None, at
        parts.append(part)
    return function(*parts), at + 1


# --- inference ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypedTerm:
    """The type of a term, and those of its free variables and nonlogical constants."""

    type: Type
    names: dict[str, Type]


def infer_type(term: Term, names: Mapping[str, Type] | None = None) -> TypedTerm:
    r"""Return the most general type of a term. Raise DataError if it has none.

    Args:
        term: any term.
        names: known types of free variables and constants.

    >>> from catena.grammar.term_notation import parse_term
    >>> str(infer_type(parse_term(r"\x y.chase(y,x)"), {"chase": parse_type("<e,<e,t>>")}).type)
    '<e,<e,t>>'
    """
    inference = _Inference(names or {})
    whole = inference.infer(term)
    inference.check_finite(term)
    letters = _letters()
    known: dict[int, Type] = {}
    return TypedTerm(
        inference.read(whole, known, letters),
        {name: inference.read(number, known, letters) for name, number in sorted(inference.free.items())},
    )


def _letters() -> Iterator[str]:
    plain = list("abcdfghijklmnopqrsuvwxyz")  # without e and t
    yield from plain
    yield from (f"{c}{n}" for n in count(1) for c in plain)


class _Inference:
    """Types as numbered nodes: unknown (None), a base type, or a pair of nodes. Equal nodes are linked."""

    def __init__(self, names: Mapping[str, Type]) -> None:
        self.shapes: list[str | tuple[int, int] | None] = []
        self.links: list[int] = []
        self.given = names
        self.free: dict[str, int] = {}

    def infer(self, term: Term) -> int:
        """Return the node of a term's type."""
        bound: dict[str, list[int]] = {}
        results: list[int] = []
        waiting: list[tuple[Term, bool]] = [(term, False)]
        while waiting:
            here, done = waiting.pop()
            if isinstance(here, Application):
                if done:
                    argument, applied = results.pop(), results.pop()
                    results.append(self._applied(here, applied, argument))
                else:
                    waiting += [(here, True), (here.argument, False), (here.function, False)]
            elif isinstance(here, Abstraction):
                if done:
                    results.append(self._node((bound[here.variable].pop(), results.pop())))
                else:
                    bound.setdefault(here.variable, []).append(self._node(None))
                    waiting += [(here, True), (here.body, False)]
            elif isinstance(here, Variable) and bound.get(here.name):
                results.append(bound[here.name][-1])
            elif isinstance(here, (Variable, Constant)):
                results.append(self._name(here))
        return results[0]

    def _name(self, term: Variable | Constant) -> int:
        if isinstance(term, Constant) and (logical := _logical(term.name)) is not None:
            return self._copied(logical)
        if isinstance(term, Constant) and term.name in RELATIONS:
            side = self._node(None)
            return self._node((side, self._node((side, self._node("t")))))
        if term.name not in self.free:
            self.free[term.name] = self._copied(self.given[term.name]) if term.name in self.given else self._node(None)
        return self.free[term.name]

    def _applied(self, term: Application, applied: int, argument: int) -> int:
        result = self._node(None)
        if not self._unify(applied, self._node((argument, result))):
            raise DataError(
                f"The term has no simple type: in {str(term)[:80]!r} the function cannot be applied to the argument. "
                "Check the types of the names in it."
            )
        return result

    def _node(self, shape: str | tuple[int, int] | None) -> int:
        self.shapes.append(shape)
        self.links.append(len(self.links))
        return len(self.links) - 1

    def _copied(self, known: Type) -> int:
        if known.argument is None or known.result is None:
            return self._node(known.name)
        return self._node((self._copied(known.argument), self._copied(known.result)))

    def _find(self, node: int) -> int:
        while self.links[node] != node:
            self.links[node] = self.links[self.links[node]]
            node = self.links[node]
        return node

    def _unify(self, one: int, two: int) -> bool:
        waiting = [(one, two)]
        while waiting:
            a, b = (self._find(node) for node in waiting.pop())
            if a == b:
                continue
            left, right = self.shapes[a], self.shapes[b]
            if left is None:
                self.links[a] = b
            elif right is None:
                self.links[b] = a
            elif isinstance(left, tuple) and isinstance(right, tuple):
                self.links[a] = b
                waiting += zip(left, right, strict=True)
            elif left != right:
                return False
        return True

    def check_finite(self, term: Term) -> None:
        """Raise DataError if a type would contain itself, as that of x in x(x)."""
        below = {}
        for node in range(len(self.links)):
            shape = self.shapes[node]
            if self._find(node) == node and isinstance(shape, tuple):
                below[node] = [self._find(part) for part in shape]
        for part in connected_parts(below):
            if len(part) > 1 or part[0] in below.get(part[0], ()):
                raise DataError(
                    f"{str(term)[:80]!r} has no simple type: something is applied to itself, as in x(x). Change it."
                )

    def read(self, node: int, known: dict[int, Type], letters: Iterator[str], depth: int = 0) -> Type:
        """Return the type of a node; unknown types get letters."""
        node = self._find(node)
        if depth > _MOST_NESTED:
            raise DataError(
                f"The type of the term is nested more than {_MOST_NESTED} deep. Give its names simpler types."
            )
        if node not in known:
            shape = self.shapes[node]
            if isinstance(shape, tuple):
                known[node] = function(*(self.read(part, known, letters, depth + 1) for part in shape))
            else:
                known[node] = Type(shape or next(letters))
        return known[node]


def _logical(name: str) -> Type | None:
    if name == NOT:
        return function(T, T)
    if name in CONNECTIVES:
        return function(T, T, T)
    return function(function(E, T), T) if name in QUANTIFIERS else None
