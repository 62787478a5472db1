r"""Regular expressions as machines in which every matched string has weight one, and one path.

Characters stand for themselves; ``.`` for any character of the alphabet; ``[a-z_]`` and ``[^a-z]`` for
classes; ``( )`` group, ``|`` separates alternatives, and ``* + ? {m} {m,} {m,n}`` repeat. A backslash takes
the next character as it is; ``\d``, ``\w`` and ``\s`` are digits, word characters and spaces of the alphabet
(``\D``, ``\W``, ``\S`` the others), and ``\n \t \r`` control characters. Patterns match whole strings. No
look-around, no back-references: they are not regular.

The pattern becomes a machine with one state for each of its characters (Glushkov 1961), which is then made
deterministic and minimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch

from catena.errors import FormatError, LimitError
from catena.numerics import NEG_INF
from catena.structure.automaton.build import Arc, from_arcs, string_to_labels
from catena.structure.automaton.determinization import determinize
from catena.structure.automaton.minimization import minimize
from catena.structure.automaton.symbols import SymbolTable
from catena.structure.automaton.wfsa import LOG, Automaton
from catena.structure.semirings import BooleanSemiring, Semiring

_MOST_POSITIONS = 20_000
_DEEPEST = 40
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdigit,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
}


def from_regex(
    pattern: str,
    alphabet: Iterable[str] | None = None,
    symbols: SymbolTable | None = None,
    semiring: Semiring = LOG,
    dtype: torch.dtype = torch.float64,
) -> Automaton:
    r"""The smallest deterministic acceptor of the strings that a pattern matches as a whole.

    Args:
        alphabet: the characters that ``.``, ``[^…]`` and classes such as ``\d`` range over; by default the
            names of one character among the symbols. Without either, such patterns are an error.
        symbols: labels of the characters; code points if omitted.
    """
    if alphabet is None and symbols is not None:
        alphabet = [name for name in symbols if len(name) == 1]
    tree = _Parser(pattern, None if alphabet is None else frozenset(alphabet)).parsed()
    machine = minimize(determinize(_Positions().machine(tree, symbols)))
    return machine.mapped(lambda x: semiring.lift(torch.where(x, 0.0, NEG_INF).to(dtype)), semiring)


# --- from text to a tree ------------------------------------------------------------------------------------


class Chars(NamedTuple):
    """Any one of these characters."""

    chosen: frozenset[str]


class Joined(NamedTuple):
    """One after the other."""

    parts: tuple[_Node, ...]


class Either(NamedTuple):
    """Any one of these."""

    parts: tuple[_Node, ...]


class Repeated(NamedTuple):
    """From ``low`` to ``high`` times; without end if ``high`` is None."""

    part: _Node
    low: int
    high: int | None


_Node = Chars | Joined | Either | Repeated


@dataclass
class _Parser:
    pattern: str
    alphabet: frozenset[str] | None
    at: int = 0
    depth: int = 0

    def parsed(self) -> _Node:
        tree = self._either()
        if self.at < len(self.pattern):
            raise self._wrong("there is a ')' without a '('", "put a backslash before it to match it")
        return tree

    def _wrong(self, problem: str, cure: str) -> FormatError:
        return FormatError(f"pattern {self.pattern!r}, character {self.at + 1}: {problem}: {cure}")

    def _next(self) -> str:
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def _take(self, what: str = "a character") -> str:
        char = self._next()
        if not char:
            raise self._wrong(f"{what} must follow, but the pattern ends", "complete it")
        self.at += 1
        return char

    def _either(self) -> _Node:
        parts = [self._joined()]
        while self._next() == "|":
            self.at += 1
            parts.append(self._joined())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _joined(self) -> _Node:
        parts = []
        while self._next() and self._next() not in "|)":
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Joined(tuple(parts))

    def _repeated(self) -> _Node:
        node = self._atom()
        while self._next() and self._next() in "*+?{":
            sign = self._take()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._bounds()
            node = Repeated(node, low, high)
        return node

    def _bounds(self) -> tuple[int, int | None]:
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at : max(end, self.at)].partition(",")
        numbers = [x for x in (low, high) if x]
        if end < 0 or not low or not all(x.isascii() and x.isdigit() and len(x) < 7 for x in numbers):
            raise self._wrong("a repetition must be {m}, {m,} or {m,n}", "put a backslash before '{' to match it")
        least, most = int(low), int(high) if high else (None if comma else int(low))
        if most is not None and most < least:
            raise self._wrong(f"{{{least},{most}}} repeats at least more often than at most", "exchange the numbers")
        self.at = end + 1
        return least, most

    def _atom(self) -> _Node:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            return Chars(self._letters("'.'"))
        if char == "\\":
            return Chars(self._escaped())
        if char in "*+?{":
            self.at -= 1
            raise self._wrong(f"{char!r} has nothing before it to repeat", "put a backslash before it to match it")
        return Chars(frozenset(char))

    def _group(self) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._wrong(f"groups are nested deeper than {_DEEPEST}", "simplify the pattern")
        node = self._either()
        if self._next() != ")":
            raise self._wrong("a '(' is never closed", "add a ')', or put a backslash before '(' to match it")
        self.at, self.depth = self.at + 1, self.depth - 1
        return node

    def _letters(self, what: str) -> frozenset[str]:
        if self.alphabet is None:
            raise self._wrong(f"{what} ranges over an alphabet, and none is given", "from_regex(pattern, alphabet=…)")
        return self.alphabet

    def _escaped(self) -> frozenset[str]:
        char = self._take("a character after the backslash")
        if char.lower() in _CLASSES:
            letters, belongs = self._letters(f"'\\{char}'"), _CLASSES[char.lower()]
            return frozenset(c for c in letters if belongs(c) == char.islower())
        if char in _CONTROLS:
            return frozenset(_CONTROLS[char])
        if char.isalnum():
            raise self._wrong(f"'\\{char}' has no meaning here", "leave out the backslash to match the character")
        return frozenset(char)

    def _class(self) -> frozenset[str]:
        negated = self._next() == "^"
        self.at += negated
        chosen: set[str] = set()
        first = True
        while first or self._next() != "]":
            first = False
            if not self._next():
                raise self._wrong("a '[' is never closed", "add a ']', or put a backslash before '[' to match it")
            low = self._class_part()
            if self._next() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                chosen |= self._range(low, self._class_part())
            else:
                chosen |= low
        self.at += 1
        return self._letters("'[^…]'") - chosen if negated else frozenset(chosen)

    def _class_part(self) -> frozenset[str]:
        char = self._take()
        return self._escaped() if char == "\\" else frozenset(char)

    def _range(self, low: frozenset[str], high: frozenset[str]) -> set[str]:
        if len(low) != 1 or len(high) != 1 or min(low) > min(high):
            raise self._wrong("a range must go from one character up to another, as in a-z", "exchange its ends")
        return {chr(code) for code in range(ord(min(low)), ord(min(high)) + 1)}


# --- from the tree to a machine -----------------------------------------------------------------------------


class Edges(NamedTuple):
    """Whether a part matches the empty string, and the positions it may begin and end with."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


_NOTHING = Edges(True, frozenset(), frozenset())


@dataclass
class _Positions:
    """Every place of a character in the pattern, and the places that may follow it. Place 0 is the beginning."""

    chosen: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    follow: list[set[int]] = field(default_factory=lambda: [set()])

    def machine(self, tree: _Node, symbols: SymbolTable | None) -> Automaton:
        whole = self._edges(tree)
        self.follow[0] |= whole.first
        labels = {c: string_to_labels([c], symbols)[0] for c in frozenset().union(*self.chosen)}
        arcs = [
            Arc(source, target, labels[c], labels[c])
            for source, targets in enumerate(self.follow)
            for target in targets
            for c in self.chosen[target]
        ]
        ends = [*whole.last, *([0] if whole.empty else [])]
        return from_arcs(arcs, [0], ends, BooleanSemiring(), len(self.chosen))

    def _edges(self, node: _Node) -> Edges:
        if isinstance(node, Chars):
            return self._place(node)
        if isinstance(node, Joined):
            return self._joined([partial(self._edges, part) for part in node.parts])
        if isinstance(node, Either):
            found = [self._edges(part) for part in node.parts]
            first, last = (frozenset().union(*(getattr(e, name) for e in found)) for name in ("first", "last"))
            return Edges(any(e.empty for e in found), first, last)
        return self._repeated(node)

    def _place(self, node: Chars) -> Edges:
        if not node.chosen:
            return Edges(False, frozenset(), frozenset())
        if len(self.chosen) > _MOST_POSITIONS:
            raise LimitError(f"the pattern, its repetitions written out, has more than {_MOST_POSITIONS} characters")
        here = frozenset((len(self.chosen),))
        self.chosen.append(node.chosen)
        self.follow.append(set())
        return Edges(False, here, here)

    def _joined(self, parts: list[Callable[[], Edges]]) -> Edges:
        whole = _NOTHING
        for part in parts:
            edges = part()
            for place in whole.last:
                self.follow[place] |= edges.first
            whole = Edges(
                whole.empty and edges.empty,
                whole.first | edges.first if whole.empty else whole.first,
                whole.last | edges.last if edges.empty else edges.last,
            )
        return whole

    def _repeated(self, node: Repeated) -> Edges:
        def once() -> Edges:
            return self._edges(node.part)

        def perhaps() -> Edges:
            return once()._replace(empty=True)

        def forever() -> Edges:
            edges = once()
            for place in edges.last:
                self.follow[place] |= edges.first
            return edges._replace(empty=True)

        rest = [forever] if node.high is None else [perhaps] * (node.high - node.low)
        return self._joined([once] * node.low + rest)
