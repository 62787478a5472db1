r"""Regular expressions as acceptors in which every matched string has weight one and a single path.

A character matches itself; ``.`` any character of the alphabet; ``[a-z_]`` and ``[^a-z]`` character classes; ``( )``
group, ``|`` separates alternatives, and ``* + ? {m} {m,} {m,n}`` repeat. A backslash escapes the next character;
``\d``, ``\w`` and ``\s`` are the digits, word characters and spaces of the alphabet (``\D``, ``\W``, ``\S`` their
complements), and ``\n \t \r`` control characters. Patterns match whole strings. Look-around and back-references are not
supported, because they are not regular.

The pattern is converted to an automaton with one state for each of its characters (Glushkov 1961), which is then
determinized and minimized.
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
    r"""The smallest deterministic acceptor of the strings that a pattern matches completely.

    Args:
        pattern: the regular expression.
        alphabet: the characters of ``.``, ``[^…]`` and classes such as ``\d``; by default the one-character names of
            ``symbols``. Such patterns raise FormatError if neither is given.
        symbols: labels of the characters; code points if omitted.
        semiring: the semiring of the weights.
        dtype: the dtype of the weights.
    """
    if alphabet is None and symbols is not None:
        alphabet = [name for name in symbols if len(name) == 1]
    tree = _Parser(pattern, None if alphabet is None else frozenset(alphabet)).parsed()
    machine = minimize(determinize(_Positions().machine(tree, symbols)))
    return machine.mapped(lambda x: semiring.lift(torch.where(x, 0.0, NEG_INF).to(dtype)), semiring)


# --- parsing ------------------------------------------------------------------------------------------------


class Chars(NamedTuple):
    """One of these characters."""

    chosen: frozenset[str]


class Joined(NamedTuple):
    """A sequence of expressions."""

    parts: tuple[_Node, ...]


class Either(NamedTuple):
    """Alternative expressions."""

    parts: tuple[_Node, ...]


class Repeated(NamedTuple):
    """An expression repeated from ``low`` to ``high`` times, without a limit if ``high`` is None."""

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
            raise self._wrong("a ')' has no '('", "Write '\\)' to match it")
        return tree

    def _wrong(self, problem: str, cure: str) -> FormatError:
        return FormatError(f"Pattern {self.pattern!r}, character {self.at + 1}: {problem}. {cure}.")

    def _next(self) -> str:
        return self.pattern[self.at] if self.at < len(self.pattern) else ""

    def _take(self, what: str = "a character") -> str:
        char = self._next()
        if not char:
            raise self._wrong(f"the pattern ends where {what} is expected", "Complete it")
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
            raise self._wrong("a repetition has to be {m}, {m,} or {m,n}", "Write '\\{' to match the character")
        least, most = int(low), int(high) if high else (None if comma else int(low))
        if most is not None and most < least:
            raise self._wrong(f"{{{least},{most}}} has a minimum above its maximum", "Exchange the numbers")
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
            raise self._wrong(f"{char!r} has nothing before it to repeat", "Put a backslash before it to match it")
        return Chars(frozenset(char))

    def _group(self) -> _Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._wrong(f"groups are nested deeper than {_DEEPEST}", "Simplify the pattern")
        node = self._either()
        if self._next() != ")":
            raise self._wrong("a '(' is never closed", "Add a ')', or write '\\(' to match it")
        self.at, self.depth = self.at + 1, self.depth - 1
        return node

    def _letters(self, what: str) -> frozenset[str]:
        if self.alphabet is None:
            raise self._wrong(f"{what} needs an alphabet", "Call from_regex(pattern, alphabet=...)")
        return self.alphabet

    def _escaped(self) -> frozenset[str]:
        char = self._take("a character after the backslash")
        if char.lower() in _CLASSES:
            letters, belongs = self._letters(f"'\\{char}'"), _CLASSES[char.lower()]
            return frozenset(c for c in letters if belongs(c) == char.islower())
        if char in _CONTROLS:
            return frozenset(_CONTROLS[char])
        if char.isalnum():
            raise self._wrong(f"'\\{char}' has no meaning here", "Remove the backslash to match the character")
        return frozenset(char)

    def _class(self) -> frozenset[str]:
        negated = self._next() == "^"
        self.at += negated
        chosen: set[str] = set()
        first = True
        while first or self._next() != "]":
            first = False
            if not self._next():
                raise self._wrong("a '[' is never closed", "Add a ']', or write '\\[' to match it")
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
            raise self._wrong("a range has to go from a lower to a higher character, as in a-z", "Exchange its ends")
        return {chr(code) for code in range(ord(min(low)), ord(min(high)) + 1)}


# --- construction of the automaton --------------------------------------------------------------------------


class Edges(NamedTuple):
    """Whether an expression matches the empty string, and the positions at which its matches may start and end."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


_NOTHING = Edges(True, frozenset(), frozenset())


@dataclass
class _Positions:
    """The positions of all characters of the pattern, and those that may follow each. Position 0 is the start."""

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
            raise LimitError(
                f"The pattern has more than {_MOST_POSITIONS} characters when its repetitions are written out. Shorten "
                "its repetitions."
            )
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
