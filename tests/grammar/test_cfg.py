"""Grammars as values: invalid ones raise, properties are correct."""

from __future__ import annotations

import math

import pytest

from catena.errors import DataError
from catena.grammar.cfg import Grammar, Nonterminal, Rule
from catena.grammar.files import parse_grammar
from tests.grammar.grammars import N

ROOMY = "S -> A B [1] | S 'x' [3]\nA -> 'a' [2]\nB -> 'b' [0.5] | '' [0.5]"


def test_symbols_are_distinct_and_ordered() -> None:
    grammar = parse_grammar(ROOMY)
    assert grammar.nonterminals == (N("S"), N("A"), N("B"))
    assert grammar.terminals == {"x", "a", "b"}
    assert [str(rule) for rule in grammar.by_left[N("B")]] == ["B -> 'b'", "B -> ε"]
    assert grammar.undefined == ()
    assert Grammar.of([Rule(N("S"), (N("X"), "x"))]).undefined == (N("X"),)


def test_normalized_weights_are_relative_weights() -> None:
    grammar = parse_grammar(ROOMY)
    assert grammar.is_weighted
    assert not grammar.is_normalized()
    assert [rule.weight for rule in grammar.normalized().rules] == [0.25, 0.75, 1.0, 0.5, 0.5]
    assert grammar.normalized().is_normalized()
    assert not grammar.unweighted().is_weighted


def test_unweighted_drops_rules_of_weight_0() -> None:
    grammar = parse_grammar("S -> 'a' [0] | 'b' [2]")
    assert [str(rule) for rule in grammar.unweighted().rules] == ["S -> 'b'"]
    with pytest.raises(DataError, match="The rules of 'S' all have weight 0"):
        parse_grammar("S -> 'a' [0]").normalized()


def test_trimmed_keeps_rules_of_finite_parses() -> None:
    text = "S -> A [1] | B [1] | Z [1] | 'n' [0]\nA -> 'a' [1]\nB -> B 'b' [1]\nZ -> Y [1]\nY -> 'y' [0]\nX -> 'x' [1]"
    assert [str(rule) for rule in parse_grammar(text).trimmed().rules] == ["S -> A", "A -> 'a'"]
    with pytest.raises(DataError, match="No string has a parse: every derivation from 'S' is infinite"):
        parse_grammar("S -> S 'a'").trimmed()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Nonterminal(""), "has an empty name"),
        (lambda: Rule(N("S"), ("",)), "is empty. Remove it"),
        (lambda: Rule(N("S"), (), -0.5), "The weight of S -> ε must be at least 0 and finite, got -0.5"),
        (lambda: Rule(N("S"), (), math.nan), "got nan"),
        (lambda: Rule(N("S"), (), math.inf), "got inf"),
        (lambda: Grammar((), N("S")), "at least one rule"),
        (lambda: Grammar.of([]), "at least one rule"),
        (lambda: Grammar.of([Rule(N("NP"), ("a",))], "NPP"), "start symbol 'NPP' has no rule: did you mean 'NP'"),
        (lambda: Grammar.of([Rule(N("S"), ("a",)), Rule(N("S"), ("a",), 2.0)]), "S -> 'a' occurs twice"),
    ],
)
def test_invalid_grammars_raise(make: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()  # type: ignore[operator]


def test_equal_rules_may_have_two_meanings() -> None:
    rules = [Rule(N("N"), ("bank",), 0.5, "river_bank"), Rule(N("N"), ("bank",), 0.5, "money_bank")]
    assert len(Grammar.of(rules).rules) == 2
