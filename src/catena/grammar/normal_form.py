r"""Chomsky normal form that keeps the weight of every string, and the inverse map for its parses.

.. math::  A \to B\; C, \qquad A \to a, \qquad S \to \epsilon \text{ if the start derives nothing}

Words in longer rules get their own symbols, long rules are split, empty rules are folded into the rules that use
them, and chains of unit rules into the rule at their end, in this order, which keeps the grammar small (Lange and
Leiß 2009). Sums over empty phrases and chains are exact, cycles included: see :mod:`catena.grammar.closure`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from catena.errors import DataError
from catena.grammar.binary import Binary, binary
from catena.grammar.cfg import Grammar, Nonterminal, Rule, Symbol, check_choice
from catena.grammar.chart import Chart, fill, join
from catena.grammar.closure import BEST, NEVER, SUM
from catena.grammar.derivation import Derivation
from catena.grammar.epsilon_removal import EpsilonClosure, close
from catena.grammar.forest import Forest, Parts
from catena.grammar.ranking import rank_parses

_Right = tuple[Symbol, ...]


@dataclass(frozen=True, eq=False)
class NormalForm:
    """A grammar in Chomsky normal form with the grammar it was computed from.

    Args:
        grammar: the normal form.
        original: the original grammar.
        binary: the intermediate step with rules of at most two symbols.
    """

    grammar: Grammar
    original: Grammar
    binary: Binary

    def restore(self, parse: Derivation) -> Derivation:
        """Return the parse of the original grammar that a parse of the normal form represents.

        If it represents several, since chains and empty phrases were summed, it is the one of largest weight.
        """
        parts = parse.fold(self._restored)
        assert not isinstance(parts, str)
        (whole,) = parts
        assert isinstance(whole, Derivation)
        return whole

    def _restored(self, node: Derivation, below: list[Parts | str]) -> Parts:
        parts: list[Parts] = [(part,) if isinstance(part, str) else part for part in below]
        top = self._number.get(node.rule.left)
        chart = None if top is None else self._chart(node.rule, top)
        best = None if chart is None else next(rank_parses(Forest(chart, parts, top)), None)
        if best is None:
            raise DataError(f"The rule {node.rule} is not in this normal form. Pass a parse of its grammar.")
        return best

    def _chart(self, rule: Rule, top: int) -> Chart | None:
        match rule.right:
            case ():
                return fill(self._best, [], top)
            case (str() as word,):
                return fill(self._best, [self.binary.words.get(word, ())], top)
            case (Nonterminal() as first, Nonterminal() as second):
                numbers = self._number.get(first), self._number.get(second)
                return None if numbers[0] is None or numbers[1] is None else join(self._best, numbers[0], numbers[1])
            case _:
                return None

    @cached_property
    def _best(self) -> EpsilonClosure:
        return close(self.binary, BEST)

    @cached_property
    def _number(self) -> dict[Nonterminal, int]:
        numbers = {symbol: number for number, symbol in enumerate(self.binary.symbols)}
        numbers.setdefault(self.grammar.start, self.binary.start)
        return numbers


def to_normal_form(grammar: Grammar, *, split: str = "right", chains: str = "sum") -> NormalForm:
    """Return an equivalent grammar in Chomsky normal form, with the same weight for every string.

    Args:
        grammar: any grammar that derives some string.
        split: position of new symbols for rules of three or more symbols: ``right`` splits ``X Y Z`` into ``X Y~Z``,
            ``left`` into ``X~Y Z``.
        chains: ``sum`` keeps the total weight of every string; ``best`` that of its best parse.

    Returns:
        The normal form, without meanings: restore a parse to get its logical form.

    Raises:
        catena.errors.DivergentSumError: if a sum is infinite.
    """
    check_choice("chains", chains, ("sum", "best"))
    grammar.trimmed()  # raises if no string has a parse
    halves = binary(grammar, split)
    closed = close(halves, SUM if chains == "sum" else BEST)
    rules = list(_merged(closed))
    start = halves.symbols[halves.start]
    empty = float(closed.empty[halves.start])
    if empty > NEVER:
        if any(start in rule.right for rule in rules):
            start = _fresh(start, halves.symbols)
            rules = [replace(rule, left=start) for rule in rules if rule.left == halves.symbols[halves.start]] + rules
        rules.append(Rule(start, (), math.exp(empty)))
    return NormalForm(Grammar.of(rules, start).trimmed(), grammar, halves)


def _merged(closed: EpsilonClosure) -> Iterator[Rule]:
    """Yield the binary and lexical rules below every chain that leads to them."""
    own = _own_rules(closed.binary)
    above: dict[int, list[tuple[int, float]]] = {}
    for left, below, weight in zip(*(column.tolist() for column in closed.chains), strict=True):
        above.setdefault(below, []).append((left, weight))
    terms: dict[tuple[int, _Right], list[float]] = {}
    exact: dict[tuple[int, _Right], float] = {}
    for symbol, right, log_weight, weight in own:
        exact[symbol, right] = weight
        terms.setdefault((symbol, right), []).append(log_weight)
        for left, chain in above.get(symbol, ()):
            terms.setdefault((left, right), []).append(log_weight + chain)
    for (left, right), weights in sorted(terms.items(), key=lambda item: item[0][0]):
        # A rule without chains above it keeps its weight to the last digit.
        alone = len(weights) == 1 and (left, right) in exact
        weight = exact[left, right] if alone else math.exp(closed.algebra.plus.reduce(weights))
        yield Rule(closed.binary.symbols[left], right, weight)


def _own_rules(halves: Binary) -> Iterator[tuple[int, _Right, float, float]]:
    for word, leaves in halves.words.items():
        for leaf in leaves:
            yield leaf.left, (word,), leaf.log_weight, halves.weight(leaf.origin)
    pairs = halves.pairs
    for at in range(len(pairs.left)):
        right = (halves.symbols[pairs.first[at]], halves.symbols[pairs.second[at]])
        yield int(pairs.left[at]), right, float(pairs.log_weight[at]), halves.weight(int(pairs.origin[at]))


def _fresh(start: Nonterminal, symbols: tuple[Nonterminal, ...]) -> Nonterminal:
    taken = {symbol.name for symbol in symbols}
    name = start.name
    while name in taken:
        name += "'"
    return Nonterminal(name)


def is_normal_form(grammar: Grammar) -> bool:
    """Return whether every rule has two nonterminals or one word on its right, or is the start's empty rule."""
    return all(
        (len(rule.right) == 2 and not any(isinstance(symbol, str) for symbol in rule.right))
        or (len(rule.right) == 1 and isinstance(rule.right[0], str))
        or (not rule.right and rule.left == grammar.start and not _is_used(grammar, grammar.start))
        for rule in grammar.rules
    )


def _is_used(grammar: Grammar, symbol: Nonterminal) -> bool:
    return any(symbol in rule.right for rule in grammar.rules)
