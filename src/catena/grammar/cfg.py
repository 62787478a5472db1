r"""Context-free grammars as frozen values: symbols, rules with weights, a start.

.. math::  w(\text{tree}) = \prod_{A \to \beta \,\in\, \text{tree}} w(A \to \beta), \qquad
           w(\text{string}) = \sum_{\text{trees over it}} w(\text{tree})

One class serves all kinds. Where every weight is 1, the weight of a string is the number of its parses: a plain
context-free grammar. Where the weights of the rules of each symbol sum to 1, it is a probabilistic one, and the
weight of a string is its probability. Any other weights make a weighted grammar.

Knows nothing of files, charts or numbers of symbols.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from catena.errors import DataError
from catena.registry import did_you_mean


@dataclass(frozen=True, slots=True)
class Nonterminal:
    """A symbol that rules rewrite. A terminal, a word, is a plain string."""

    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise DataError("a nonterminal must have a name, but it is empty")

    def __str__(self) -> str:
        return self.name


Symbol = Nonterminal | str


@dataclass(frozen=True, slots=True)
class Rule:
    """``left -> right`` with a weight. No symbols on the right make it an empty rule.

    Args:
        left: the symbol that is rewritten.
        right: what it is rewritten to: nonterminals and words.
        weight: its probability, or any other number from 0 on; a rule of weight 0 is in no parse.
        meaning: what the phrase means, a term over the meanings of its parts such as ``VP.sem(NP.sem)``; see
            :mod:`catena.grammar.semantics`.
    """

    left: Nonterminal
    right: tuple[Symbol, ...]
    weight: float = 1.0
    meaning: str | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise DataError(f"the weight of a rule must be a number from 0 on, but that of {self} is {self.weight}")
        if "" in self.right:
            raise DataError(f"a word must have letters, but {self} has an empty one: leave it out")

    def __str__(self) -> str:
        parts = [repr(symbol) if isinstance(symbol, str) else symbol.name for symbol in self.right]
        return f"{self.left.name} -> {' '.join(parts) or 'ε'}"


@dataclass(frozen=True)
class Grammar:
    """Rules and the symbol that every parse begins with.

    No rule may occur twice, unless the two mean different things.
    """

    rules: tuple[Rule, ...]
    start: Nonterminal

    def __post_init__(self) -> None:
        if not self.rules:
            raise DataError("a grammar must have at least one rule, but it has none")
        if self.start not in self.by_left:
            names = [symbol.name for symbol in self.by_left]
            raise DataError(f"the start symbol {self.start.name!r} has no rule: {did_you_mean(self.start.name, names)}")
        seen = set()
        for rule in self.rules:
            key = (rule.left, rule.right, rule.meaning)
            if key in seen:
                raise DataError(f"the rule {rule} is there twice: give it once, with the sum of the weights")
            seen.add(key)

    @classmethod
    def of(cls, rules: Iterable[Rule], start: Nonterminal | str | None = None) -> Grammar:
        """A grammar that starts with the left side of its first rule, if nothing else is said."""
        rules = tuple(rules)
        if start is None and rules:
            start = rules[0].left
        return cls(rules, Nonterminal(start) if isinstance(start, str) else start or Nonterminal("S"))

    # --- what it says of itself -----------------------------------------------------------------------------

    @cached_property
    def by_left(self) -> dict[Nonterminal, tuple[Rule, ...]]:
        """The rules of each symbol that has any, in their order."""
        lists: dict[Nonterminal, list[Rule]] = defaultdict(list)
        for rule in self.rules:
            lists[rule.left].append(rule)
        return {left: tuple(rules) for left, rules in lists.items()}

    @cached_property
    def nonterminals(self) -> tuple[Nonterminal, ...]:
        """Every nonterminal, left sides first, each in the order in which it first occurs."""
        right = (symbol for rule in self.rules for symbol in rule.right if isinstance(symbol, Nonterminal))
        return tuple(dict.fromkeys((*self.by_left, *right)))

    @cached_property
    def terminals(self) -> frozenset[str]:
        """Every word."""
        return frozenset(symbol for rule in self.rules for symbol in rule.right if isinstance(symbol, str))

    @cached_property
    def undefined(self) -> tuple[Nonterminal, ...]:
        """Nonterminals that some rule uses and none rewrites."""
        return tuple(symbol for symbol in self.nonterminals if symbol not in self.by_left)

    @cached_property
    def useful_rules(self) -> tuple[Rule, ...]:
        """The rules that some finite parse of weight above 0 uses."""
        return tuple(_reachable(_productive(self.rules), self.start))

    @property
    def is_weighted(self) -> bool:
        """Whether any weight differs from 1."""
        return any(rule.weight != 1.0 for rule in self.rules)

    def is_normalized(self, tolerance: float = 1e-9) -> bool:
        """Whether the weights of the rules of each symbol sum to 1: a probabilistic grammar."""
        sums = (math.fsum(rule.weight for rule in rules) for rules in self.by_left.values())
        return all(abs(total - 1.0) <= tolerance for total in sums)

    # --- other grammars -------------------------------------------------------------------------------------

    def normalized(self) -> Grammar:
        """The same rules, with the weights of each symbol divided by their sum."""
        sums = {left: math.fsum(rule.weight for rule in rules) for left, rules in self.by_left.items()}
        dead = next((left.name for left, total in sums.items() if total == 0), None)
        if dead is not None:
            raise DataError(
                f"the rules of {dead!r} all have weight 0, so that they have no relative weights: remove them"
            )
        return Grammar(tuple(replace(rule, weight=rule.weight / sums[rule.left]) for rule in self.rules), self.start)

    def unweighted(self) -> Grammar:
        """The same rules, those of weight 0 left out, each with weight 1."""
        return Grammar.of((replace(rule, weight=1.0) for rule in self.rules if rule.weight > 0), self.start)

    def trimmed(self) -> Grammar:
        """Without the rules that no finite parse can use: unreachable, without end, or of weight 0."""
        rules = self.useful_rules
        if not rules:
            raise DataError(
                f"no string has a parse: every derivation from {self.start.name!r} is endless or of weight 0"
            )
        return Grammar(rules, self.start)


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Raise where an option has a value that it does not know."""
    if value not in known:
        raise DataError(
            f"{name} must be one of its {len(tuple(known))} choices, but is {value!r}: {did_you_mean(value, known)}"
        )


def _productive(rules: tuple[Rule, ...]) -> list[Rule]:
    """The rules of weight above 0 whose right side derives some string."""
    uses: dict[Nonterminal, list[int]] = defaultdict(list)
    missing = []
    for number, rule in enumerate(rules):
        parts = {symbol for symbol in rule.right if isinstance(symbol, Nonterminal)}
        missing.append(len(parts) if rule.weight > 0 else -1)
        for part in parts:
            uses[part].append(number)
    known: set[Nonterminal] = set()
    waiting = [rules[number].left for number, count in enumerate(missing) if count == 0]
    while waiting:
        left = waiting.pop()
        if left in known:
            continue
        known.add(left)
        for number in uses[left]:
            missing[number] -= 1
            if missing[number] == 0:
                waiting.append(rules[number].left)
    return [rule for rule, count in zip(rules, missing, strict=True) if count == 0]


def _reachable(rules: list[Rule], start: Nonterminal) -> list[Rule]:
    """The rules that a derivation from the start can come to."""
    by_left: dict[Nonterminal, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_left[rule.left].append(rule)
    found, waiting = {start}, [start]
    while waiting:
        for rule in by_left[waiting.pop()]:
            new = {symbol for symbol in rule.right if isinstance(symbol, Nonterminal)} - found
            found |= new
            waiting.extend(new)
    return [rule for rule in rules if rule.left in found]
