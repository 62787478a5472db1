"""Chomsky normal form keeps the weight of every string, and its parses can be mapped back."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from catena.errors import DataError, DivergentSumError
from catena.grammar.binary import binary
from catena.grammar.cfg import Grammar
from catena.grammar.files import format_grammar, parse_grammar
from catena.grammar.normal_form import is_normal_form, to_normal_form
from catena.grammar.parse import CFGParser
from tests.grammar.grammars import N, built, plain, rule_lists, strings
from tests.oracle.grammars import OracleRule, weight_up_to

CIRCLES = """
S -> A B 'x' A [0.3] | S [0.25] | A [0.2] | 'y' [0.25]
A -> B [0.5] | '' [0.2] | 'a' [0.3]
B -> A [0.4] | S S [0.1] | 'b' [0.5]
"""


def usable(grammar: Grammar) -> bool:
    return bool(grammar.useful_rules)


@settings(max_examples=25)
@given(rule_lists(), st.sampled_from(["left", "right"]))
def test_weight_of_every_string_is_kept(rules: list[OracleRule], split: str) -> None:
    grammar = built(rules)
    assume(usable(grammar))
    normal = to_normal_form(grammar, split=split)
    assert is_normal_form(normal.grammar)
    again = plain(normal.grammar)
    for words in [*strings(2), ("a", "b", "a")]:
        wanted = weight_up_to(rules, "S", words, depth=90)
        # The normal form has no cycles: its derivations are at most as deep as the string is long.
        got = weight_up_to(again, normal.grammar.start.name, words, depth=len(words) + 1)
        assert got == pytest.approx(wanted, abs=1e-10)


@settings(max_examples=25)
@given(rule_lists(), st.sampled_from(["left", "right"]))
def test_best_chains_keep_best_parse_and_map_it_back(rules: list[OracleRule], split: str) -> None:
    grammar = built(rules)
    assume(usable(grammar))
    normal = to_normal_form(grammar, split=split, chains="best")
    parser, original = CFGParser(normal.grammar), CFGParser(grammar)
    for words in strings(3):
        if original.recognize(words):
            parse = parser.parse(words)
            restored = normal.restore(parse)
            assert restored.words() == words
            assert set(restored.rules()) <= set(grammar.rules)
            assert restored.log_weight == pytest.approx(parse.log_weight, abs=1e-9)
            assert restored.log_weight == pytest.approx(original.parse(words).log_weight, abs=1e-9)
        else:
            assert not parser.recognize(words)


@settings(max_examples=25)
@given(rule_lists())
def test_every_parse_of_normal_form_is_parse_of_grammar(rules: list[OracleRule]) -> None:
    grammar = built(rules)
    assume(usable(grammar))
    normal = to_normal_form(grammar)
    assert normal.grammar.rules
    for words in strings(2):
        for parse in CFGParser(normal.grammar).parses(words):
            restored = normal.restore(parse)
            assert restored.words() == words
            assert restored.rule.left == grammar.start
            assert set(restored.rules()) <= set(grammar.rules)
            assert restored.log_weight <= parse.log_weight + 1e-9  # one of those that were summed


def test_restored_parses_go_through_chains_and_empty_phrases() -> None:
    grammar = parse_grammar(CIRCLES)
    normal = to_normal_form(grammar)
    parse = CFGParser(normal.grammar).parse("x")
    assert str(parse) == "(S' x)" if normal.grammar.start == N("S'") else "(S x)"
    assert str(normal.restore(parse)) == "(S (A) (B (A)) x (A))"


def test_grammar_in_normal_form_is_unchanged() -> None:
    grammar = parse_grammar("S -> A B [0.3] | 's' [0.7]\nA -> 'a' [0.1] | A A [0.9]\nB -> 'b' [1]")
    assert is_normal_form(grammar)
    assert set(to_normal_form(grammar).grammar.rules) == set(grammar.rules)


def test_empty_string_gets_new_start_symbol_if_start_is_used() -> None:
    normal = to_normal_form(parse_grammar("S -> 'a' S 'b' [0.5] | '' [0.5]"))
    assert normal.grammar.start == N("S'")
    assert is_normal_form(normal.grammar)
    assert math.exp(CFGParser(normal.grammar).log_total("")) == pytest.approx(0.5)
    assert str(normal.restore(CFGParser(normal.grammar).parse("a b"))) == "(S a (S) b)"
    simple = to_normal_form(parse_grammar("S -> 'a' [0.5] | '' [0.5]"))
    assert simple.grammar.start == N("S")
    assert [str(rule) for rule in simple.grammar.rules] == ["S -> 'a'", "S -> ε"]


def test_long_rules_are_split_from_either_side_with_common_endings() -> None:
    grammar = parse_grammar("S -> A B C 'd' | B B C 'd'\nA -> 'a'\nB -> 'b'\nC -> 'c'")
    right = binary(grammar, "right")
    assert [symbol.name for symbol in right.symbols[4:]] == ["'d'", "B~C~'d'", "C~'d'"]
    left = binary(grammar, "left")
    assert [symbol.name for symbol in left.symbols[4:]] == ["'d'", "A~B~C", "A~B", "B~B~C", "B~B"]
    clash = parse_grammar("S -> A B C\nA -> 'a'\nB -> <B~C>\nC -> 'c'\n<B~C> -> 'b'")
    assert "B~C'" in {s.name for s in binary(clash).symbols}
    normal = to_normal_form(clash)
    assert str(normal.restore(CFGParser(normal.grammar).parse("a b c"))) == "(S (A a) (B (B~C b)) (C c))"


def test_normal_form_reads_back() -> None:
    grammar = to_normal_form(parse_grammar(CIRCLES)).grammar
    assert parse_grammar(format_grammar(grammar)) == grammar


def test_normal_form_of_unweighted_rules_counts_parses() -> None:
    grammar = parse_grammar("S -> A | B | 'a' S\nA -> 'a'\nB -> 'a' | A")
    normal = to_normal_form(grammar)
    for words in (("a",), ("a", "a")):
        assert math.exp(CFGParser(normal.grammar).log_total(words)) == pytest.approx(CFGParser(grammar).count(words))


def test_grammars_without_normal_form_raise() -> None:
    with pytest.raises(DataError, match="No string has a parse"):
        to_normal_form(parse_grammar("S -> S 'a'"))
    with pytest.raises(DivergentSumError, match="an infinite sum"):
        to_normal_form(parse_grammar("S -> S | 'a'"))
    assert is_normal_form(to_normal_form(parse_grammar("S -> S | 'a'"), chains="best").grammar)
    with pytest.raises(DataError, match=r"split must be .* got 'middle'"):
        to_normal_form(parse_grammar("S -> 'a'"), split="middle")
    with pytest.raises(DataError, match=r"chains must be .* got 'max'"):
        to_normal_form(parse_grammar("S -> 'a'"), chains="max")
    other = CFGParser(parse_grammar("S -> X Y\nX -> 'a'\nY -> 'b'")).parse("a b")
    with pytest.raises(DataError, match="The rule X -> 'a' is not in this normal form"):
        to_normal_form(parse_grammar("S -> 'a'")).restore(other)
