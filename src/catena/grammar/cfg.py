r"""Context-free grammars as immutable values: symbols, weighted rules and a start symbol.

.. math::  w(\text{tree}) = \prod_{A \to \beta \,\in\, \text{tree}} w(A \to \beta), \qquad
           w(\text{string}) = \sum_{\text{trees over it}} w(\text{tree})

One class covers all kinds. If every weight is 1, the weight of a string is the number of its parses: an unweighted
context-free grammar. If the weights of the rules of each symbol sum to 1, the grammar is probabilistic, and the weight
of a string is its probability. Any other weights make a weighted grammar.

Independent of files and charts.
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
    """A symbol that rules rewrite. A terminal, a word, is a plain string.

    Args:
        name: its name, such as ``NP``.
    """

    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise DataError("A nonterminal has an empty name. Give it a name.")

    def __str__(self) -> str:
        return self.name


Symbol = Nonterminal | str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule ``left -> right`` with a weight. If ``right`` is empty, it is an epsilon rule.

    Args:
        left: the symbol to rewrite.
        right: its expansion, nonterminals and words.
        weight: its probability, or any other non-negative float. Rules of weight 0 occur in no parse.
        meaning: the meaning of the phrase, a term over the meanings of its parts such as ``VP.sem(NP.sem)``; see
            :mod:`catena.grammar.semantics`.
    """

    left: Nonterminal
    right: tuple[Symbol, ...]
    weight: float = 1.0
    meaning: str | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise DataError(f"The weight of {self} must be at least 0 and finite, got {self.weight}. Use 0.5, say.")
        if "" in self.right:
            raise DataError(f"A word of {self} is empty. Remove it.")

    def __str__(self) -> str:
        parts = [repr(symbol) if isinstance(symbol, str) else symbol.name for symbol in self.right]
        return f"{self.left.name} -> {' '.join(parts) or 'ε'}"


@dataclass(frozen=True)
class Grammar:
    """Rules and the start symbol of every parse.

    No rule may occur twice, unless the two have different meanings.

    Args:
        rules: the rules with their weights.
        start: the symbol at the top of every parse.
    """

    rules: tuple[Rule, ...]
    start: Nonterminal

    def __post_init__(self) -> None:
        if not self.rules:
            raise DataError("A grammar needs at least one rule. Add a rule.")
        if self.start not in self.by_left:
            names = [symbol.name for symbol in self.by_left]
            raise DataError(f"The start symbol {self.start.name!r} has no rule: {did_you_mean(self.start.name, names)}")
        seen = set()
        for rule in self.rules:
            key = (rule.left, rule.right, rule.meaning)
            if key in seen:
                raise DataError(f"The rule {rule} occurs twice. Keep one, with the sum of the weights.")
            seen.add(key)

    @classmethod
    def of(cls, rules: Iterable[Rule], start: Nonterminal | str | None = None) -> Grammar:
        """Return a grammar whose start symbol is, by default, the left side of its first rule."""
        rules = tuple(rules)
        if start is None and rules:
            start = rules[0].left
        return cls(rules, Nonterminal(start) if isinstance(start, str) else start or Nonterminal("S"))

    # --- properties -----------------------------------------------------------------------------------------

    @cached_property
    def by_left(self) -> dict[Nonterminal, tuple[Rule, ...]]:
        """The rules of each symbol that has any, in their order."""
        lists: dict[Nonterminal, list[Rule]] = defaultdict(list)
        for rule in self.rules:
            lists[rule.left].append(rule)
        return {left: tuple(rules) for left, rules in lists.items()}

    @cached_property
    def nonterminals(self) -> tuple[Nonterminal, ...]:
        """Every nonterminal in order of first occurrence, left sides first."""
        right = (symbol for rule in self.rules for symbol in rule.right if isinstance(symbol, Nonterminal))
        return tuple(dict.fromkeys((*self.by_left, *right)))

    @cached_property
    def terminals(self) -> frozenset[str]:
        """Every word of the rules."""
        return frozenset(symbol for rule in self.rules for symbol in rule.right if isinstance(symbol, str))

    @cached_property
    def undefined(self) -> tuple[Nonterminal, ...]:
        """The nonterminals that occur on a right side but have no rule."""
        return tuple(symbol for symbol in self.nonterminals if symbol not in self.by_left)

    @cached_property
    def useful_rules(self) -> tuple[Rule, ...]:
        """Return the rules that occur in some finite parse of positive weight."""
        return tuple(_reachable(_productive(self.rules), self.start))

    @property
    def is_weighted(self) -> bool:
        """Return whether any weight differs from 1."""
        return any(rule.weight != 1.0 for rule in self.rules)

    def is_normalized(self, tolerance: float = 1e-9) -> bool:
        """Return whether the weights of the rules of each symbol sum to 1 (a probabilistic grammar)."""
        sums = (math.fsum(rule.weight for rule in rules) for rules in self.by_left.values())
        return all(abs(total - 1.0) <= tolerance for total in sums)

    # --- other grammars -------------------------------------------------------------------------------------

    def normalized(self) -> Grammar:
        """Return the same rules with the weights of each symbol divided by their sum."""
        sums = {left: math.fsum(rule.weight for rule in rules) for left, rules in self.by_left.items()}
        dead = next((left.name for left, total in sums.items() if total == 0), None)
        if dead is not None:
            raise DataError(f"The rules of {dead!r} all have weight 0, so they cannot be normalized. Remove them.")
        return Grammar(tuple(replace(rule, weight=rule.weight / sums[rule.left]) for rule in self.rules), self.start)

    def unweighted(self) -> Grammar:
        """Return the same rules with weight 1, without those of weight 0."""
        return Grammar.of((replace(rule, weight=1.0) for rule in self.rules if rule.weight > 0), self.start)

    def trimmed(self) -> Grammar:
        """Return the grammar without rules that no finite parse of positive weight uses."""
        rules = self.useful_rules
        if not rules:
            raise DataError(
                f"No string has a parse: every derivation from {self.start.name!r} is infinite or of weight 0. Add a "
                "rule that ends in words."
            )
        return Grammar(rules, self.start)


def check_choice(name: str, value: str, known: Iterable[str]) -> None:
    """Raise DataError if an option has an unknown value."""
    if value not in known:
        raise DataError(
            f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}. Pass one of these values."
        )


def _productive(rules: tuple[Rule, ...]) -> list[Rule]:
    """Return the rules of positive weight whose right side derives some string."""
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
    """Return the rules that a derivation from the start symbol can use."""
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
