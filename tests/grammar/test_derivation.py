"""Parses as values."""

from __future__ import annotations

import math

import pytest

from catena.data.readers import brackets
from catena.errors import DataError
from catena.grammar.cfg import Rule
from catena.grammar.derivation import Derivation, build_derivation
from tests.grammar.grammars import N

DET = Derivation(Rule(N("Det"), ("the",), 0.5), ("the",))
NOUN = Derivation(Rule(N("Noun"), ("UNK",), 0.25), ("aardvark",))
PHRASE = Derivation(Rule(N("NP"), (N("Det"), N("Noun"), "!"), 0.1), (DET, NOUN, "!"))
NOTHING = Derivation(Rule(N("Tail"), (), 0.5), ())
WHOLE = Derivation(Rule(N("S"), (N("NP"), N("Tail"))), (PHRASE, NOTHING))


def test_words_rules_and_weight() -> None:
    assert WHOLE.words() == ("the", "aardvark", "!")
    assert [str(rule.left) for rule in WHOLE.rules()] == ["S", "NP", "Det", "Noun", "Tail"]
    assert WHOLE.log_weight == pytest.approx(math.log(0.5 * 0.25 * 0.1 * 0.5), abs=1e-12)
    assert Derivation(Rule(N("S"), (), 0.0), ()).log_weight == -math.inf
    assert str(WHOLE) == "(S (NP (Det the) (Noun aardvark) !) (Tail))"


def test_rules_of_leftmost_derivation_give_tree_back() -> None:
    again = build_derivation(iter(WHOLE.rules()))
    assert again.words() == ("the", "UNK", "!")
    assert again.rules() == WHOLE.rules()
    assert again != WHOLE
    assert again == build_derivation(iter(again.rules()))
    assert len({again, build_derivation(iter(again.rules())), WHOLE}) == 2


def test_rules_that_form_no_tree_raise() -> None:
    rules = WHOLE.rules()
    with pytest.raises(DataError, match="Add a rule for 'Tail'"):
        build_derivation(iter(rules[:-1]))
    with pytest.raises(DataError, match=r"Noun -> 'UNK' cannot be next. Pass a rule for Det"):
        build_derivation(iter((rules[0], rules[1], rules[3])))
    with pytest.raises(DataError, match="children must match the right side of S -> NP Tail"):
        Derivation(rules[0], (NOTHING, PHRASE))


def test_tree_is_treebank_tree() -> None:
    text = "(S (NP (Det the) (Noun aardvark) (! !)) (Tail (-NONE- *)))"
    assert brackets.to_text(WHOLE.tree()) == text


def test_trees_deeper_than_stack() -> None:
    right, end = Rule(N("S"), ("a", N("S")), 0.5), Rule(N("S"), (), 0.5)
    deep = build_derivation(iter([right] * 3_000 + [end]))
    assert len(deep.words()) == 3_000
    assert deep == build_derivation(iter(deep.rules()))
    assert deep.log_weight == pytest.approx(3_001 * math.log(0.5))
    assert len(str(deep)) > 3_000
    assert len(deep.tree().words()) == 3_001
