"""Grammars as values: what they refuse, and what they say of themselves."""

from __future__ import annotations

import math

import pytest

from catena.errors import DataError
from catena.grammar.cfg import Grammar, Nonterminal, Rule
from catena.grammar.files import parse_grammar
from tests.grammar.grammars import N

ROOMY = "S -> A B [1] | S 'x' [3]\nA -> 'a' [2]\nB -> 'b' [0.5] | '' [0.5]"


def test_symbols_are_told_apart_and_kept_in_order() -> None:
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


def test_rules_of_weight_0_are_in_no_unweighted_grammar() -> None:
    grammar = parse_grammar("S -> 'a' [0] | 'b' [2]")
    assert [str(rule) for rule in grammar.unweighted().rules] == ["S -> 'b'"]
    with pytest.raises(DataError, match="the rules of 'S' all have weight 0"):
        parse_grammar("S -> 'a' [0]").normalized()


def test_trimming_leaves_what_a_finite_parse_can_use() -> None:
    text = "S -> A [1] | B [1] | Z [1] | 'n' [0]\nA -> 'a' [1]\nB -> B 'b' [1]\nZ -> Y [1]\nY -> 'y' [0]\nX -> 'x' [1]"
    assert [str(rule) for rule in parse_grammar(text).trimmed().rules] == ["S -> A", "A -> 'a'"]
    with pytest.raises(DataError, match="no string has a parse: every derivation from 'S' is endless"):
        parse_grammar("S -> S 'a'").trimmed()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Nonterminal(""), "must have a name"),
        (lambda: Rule(N("S"), ("",)), "has an empty one: leave it out"),
        (lambda: Rule(N("S"), (), -0.5), "must be a number from 0 on, but that of S -> ε is -0.5"),
        (lambda: Rule(N("S"), (), math.nan), "is nan"),
        (lambda: Rule(N("S"), (), math.inf), "is inf"),
        (lambda: Grammar((), N("S")), "at least one rule"),
        (lambda: Grammar.of([]), "at least one rule"),
        (lambda: Grammar.of([Rule(N("NP"), ("a",))], "NPP"), "start symbol 'NPP' has no rule: did you mean 'NP'"),
        (lambda: Grammar.of([Rule(N("S"), ("a",)), Rule(N("S"), ("a",), 2.0)]), "S -> 'a' is there twice"),
    ],
)
def test_what_is_no_grammar_is_refused_in_a_sentence(make: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        make()  # type: ignore[operator]


def test_the_same_rule_may_mean_two_things() -> None:
    rules = [Rule(N("N"), ("bank",), 0.5, "river_bank"), Rule(N("N"), ("bank",), 0.5, "money_bank")]
    assert len(Grammar.of(rules).rules) == 2
