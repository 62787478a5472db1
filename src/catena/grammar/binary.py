"""A grammar as rules of at most two symbols with integer ids, the input of the dynamic programs.

Words in longer rules get their own symbol, and rules of more than two symbols are split: ``A -> X Y Z`` becomes
``A -> X Y~Z`` and ``Y~Z -> Y Z`` of weight 1. All rules with the same ending use the same new symbols. The parses of
the two grammars correspond one to one, with equal weights.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from catena.grammar.cfg import Grammar, Nonterminal, Symbol, check_choice

HELPER = -1
"""The origin of a rule that is only a piece of an original rule."""


class RulePairs(NamedTuple):
    """Rules ``left -> first second``, sorted by ``left``."""

    left: Int[np.ndarray, "n"]
    first: Int[np.ndarray, "n"]
    second: Int[np.ndarray, "n"]
    log_weight: Float[np.ndarray, "n"]
    origin: Int[np.ndarray, "n"]


class UnitRule(NamedTuple):
    """A rule ``left -> below``."""

    left: int
    below: int
    log_weight: float
    origin: int


class Leaf(NamedTuple):
    """A rule ``left -> word``, or an empty rule."""

    left: int
    log_weight: float
    origin: int


@dataclass(frozen=True)
class Binary:
    """The rules by kind. Symbols are indices into ``symbols``, and ``origin`` is the index of a rule in the grammar."""

    grammar: Grammar
    symbols: tuple[Nonterminal, ...]
    start: int
    pairs: RulePairs
    units: tuple[UnitRule, ...]
    empties: tuple[Leaf, ...]
    words: dict[str, tuple[Leaf, ...]]

    @cached_property
    def units_by_left(self) -> dict[int, list[UnitRule]]:
        """The unit rules of each symbol that has any."""
        found: dict[int, list[UnitRule]] = {}
        for unit in self.units:
            found.setdefault(unit.left, []).append(unit)
        return found

    def weight(self, origin: int) -> float:
        """Return the weight of a rule exactly as in the grammar, or 1 for a rule created by splitting."""
        return 1.0 if origin == HELPER else self.grammar.rules[origin].weight

    def pairs_of(self, symbol: int) -> slice:
        """Return the slice of the pairs that holds the rules of a symbol."""
        first, last = np.searchsorted(self.pairs.left, [symbol, symbol + 1])
        return slice(int(first), int(last))


def binary(grammar: Grammar, side: str = "right") -> Binary:
    """Return the grammar with its rules split into rules of at most two symbols.

    Args:
        grammar: any grammar. Rules that no parse can use, such as those of weight 0, are dropped.
        side: position of the new symbols: ``right`` splits ``X Y Z`` into ``X Y~Z``, ``left`` into ``X~Y Z``.
    """
    check_choice("split", side, ("left", "right"))
    splitter = _Splitter(grammar, side)
    useful = set(map(id, grammar.useful_rules))
    for number, rule in enumerate(grammar.rules):
        if id(rule) in useful:
            splitter.add(splitter.ids[rule.left], rule.right, math.log(rule.weight), number)
    return splitter.finish()


class _Splitter:
    def __init__(self, grammar: Grammar, side: str) -> None:
        self.grammar, self.side = grammar, side
        self.ids = {symbol: number for number, symbol in enumerate(grammar.nonterminals)}
        self.names = [symbol.name for symbol in grammar.nonterminals]
        self.taken = set(self.names)
        self.helpers: dict[tuple[int, ...] | str, int] = {}
        self.pairs: list[tuple[int, int, int, float, int]] = []
        self.units: list[UnitRule] = []
        self.empties: list[Leaf] = []
        self.words: dict[str, list[Leaf]] = defaultdict(list)

    def add(self, left: int, right: tuple[Symbol, ...], log_weight: float, origin: int) -> None:
        if not right:
            self.empties.append(Leaf(left, log_weight, origin))
        elif len(right) == 1 and isinstance(right[0], str):
            self.words[right[0]].append(Leaf(left, log_weight, origin))
        else:
            parts = tuple(self._of_word(s) if isinstance(s, str) else self.ids[s] for s in right)
            self._split(left, parts, log_weight, origin)

    def _split(self, left: int, parts: tuple[int, ...], log_weight: float, origin: int) -> None:
        if len(parts) == 1:
            self.units.append(UnitRule(left, parts[0], log_weight, origin))
            return
        while True:
            rest = parts if len(parts) == 2 else parts[1:] if self.side == "right" else parts[:-1]
            if len(parts) == 2:
                self.pairs.append((left, *parts, log_weight, origin))
                return
            known = rest in self.helpers
            helper = self._helper(rest, "~".join(self.names[part] for part in rest))
            children = (parts[0], helper) if self.side == "right" else (helper, parts[-1])
            self.pairs.append((left, *children, log_weight, origin))
            if known:
                return
            left, parts, log_weight, origin = helper, rest, 0.0, HELPER

    def _of_word(self, word: str) -> int:
        if word not in self.helpers:
            self.words[word].append(Leaf(self._helper(word, f"'{word}'"), 0.0, HELPER))
        return self.helpers[word]

    def _helper(self, key: tuple[int, ...] | str, name: str) -> int:
        if key not in self.helpers:
            while name in self.taken:
                name += "'"
            self.taken.add(name)
            self.helpers[key] = len(self.names)
            self.names.append(name)
        return self.helpers[key]

    def finish(self) -> Binary:
        columns = list(zip(*sorted(self.pairs), strict=True)) or [()] * 5
        left, first, second, origin = (np.array(columns[c], dtype=np.int64) for c in (0, 1, 2, 4))
        pairs = RulePairs(left, first, second, np.array(columns[3], dtype=np.float64), origin)
        words = {word: tuple(leaves) for word, leaves in self.words.items()}
        symbols = (*self.grammar.nonterminals, *map(Nonterminal, self.names[len(self.grammar.nonterminals) :]))
        start = self.ids[self.grammar.start]
        return Binary(self.grammar, symbols, start, pairs, tuple(self.units), tuple(self.empties), words)
