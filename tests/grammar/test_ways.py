"""Every method gives the same weight of a string: enumerated derivations, charts, normal form, tensors, files."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError
from catena.grammar.binary import binary
from catena.grammar.cfg import Grammar
from catena.grammar.closure import SUM
from catena.grammar.compiled_chart import fill_quickly
from catena.grammar.dense import DenseGrammar
from catena.grammar.epsilon_removal import close
from catena.grammar.files import format_grammar, parse_grammar
from catena.grammar.normal_form import to_normal_form
from catena.grammar.parse import CFGParser
from tests.grammar.grammars import built
from tests.oracle.grammars import OracleRule, derivations, weight_up_to

NAMES = ("S", "A", "B", "a", "S'")
"""One name equals a word."""
WORDS = ("a", "b", "it's")
STRINGS = [
    (),
    *((word,) for word in WORDS),
    *itertools.product(WORDS, repeat=2),
    ("a", "b", "a"),
    ("it's", "a", "b", "a"),
]


@st.composite
def grammars(draw: st.DrawFn) -> list[OracleRule]:
    """Return any rules, also of weight 0, with cycles of so little weight that their sums converge quickly."""
    symbols = st.sampled_from((*((name,) for name in NAMES), *WORDS))
    sides = st.lists(st.lists(symbols, max_size=4).map(tuple), min_size=1, max_size=5, unique=True)
    rules: list[OracleRule] = []
    for left in ("S", *draw(st.lists(st.sampled_from(NAMES[1:]), unique=True))):
        rights = draw(sides)
        shares = [draw(st.sampled_from((0.0, 1.0, 1.0, 2.0, 1e-6))) for _ in rights]
        mass = draw(st.sampled_from((0.05, 0.3, 0.5)))
        rules += [
            (left, side, mass * share / max(sum(shares), 1.0)) for side, share in zip(rights, shares, strict=True)
        ]
    return rules


def quickly(grammar: Grammar, words: tuple[str, ...]) -> float:
    closed = close(binary(grammar), SUM)
    return fill_quickly(closed, [closed.binary.words.get(word, ()) for word in words]).total


@settings(max_examples=12)
@given(grammars())
def test_both_charts_give_sum_over_all_derivations(rules: list[OracleRule]) -> None:
    grammar = built(rules)
    parser = CFGParser(grammar)
    for words in STRINGS:
        wanted = weight_up_to(rules, "S", words, depth=45)
        assert math.exp(parser.log_total(words)) == pytest.approx(wanted, rel=1e-9, abs=1e-14)
        assert math.exp(quickly(grammar, words)) == pytest.approx(wanted, rel=1e-9, abs=1e-14)


@settings(max_examples=15)
@given(grammars(), st.sampled_from(["left", "right"]))
def test_normal_form_its_tensors_and_its_file_keep_every_sum(rules: list[OracleRule], split: str) -> None:
    grammar = built(rules)
    if not grammar.useful_rules:
        with pytest.raises(DataError, match="No string has a parse"):
            to_normal_form(grammar, split=split)
        return
    parser, normal = CFGParser(grammar), to_normal_form(grammar, split=split).grammar
    again = CFGParser(parse_grammar(format_grammar(normal)))
    wanted = {words: parser.log_total(words) for words in STRINGS}
    for words, total in wanted.items():
        assert CFGParser(normal).log_total(words) == pytest.approx(total, abs=1e-9)
        assert again.log_total(words) == pytest.approx(total, abs=1e-9)
    known = [words for words in STRINGS if words and set(words) <= normal.terminals]
    if known:
        found = DenseGrammar(normal).structure(known).log_partition().tolist()
        assert found == pytest.approx([wanted[words] for words in known], abs=1e-9)


@settings(max_examples=15)
@given(grammars(), st.sampled_from(["nltk", "bnf", "weighted"]))
def test_file_of_any_style_keeps_every_sum_or_raises(rules: list[OracleRule], style: str) -> None:
    grammar = built(rules)
    try:
        text = format_grammar(grammar, style=style)
    except DataError:
        return  # test_files.py covers what each style cannot represent
    again = parse_grammar(text, style=style, start="S")
    assert set(again.rules) == set(grammar.rules)
    for words in STRINGS:
        assert CFGParser(again).log_total(words) == pytest.approx(CFGParser(grammar).log_total(words), abs=1e-12)


@settings(max_examples=15)
@given(grammars())
def test_no_derivation_is_better_than_best_parse(rules: list[OracleRule]) -> None:
    parser = CFGParser(built(rules))
    for words in STRINGS[:9]:
        listed = [weight for _, weight in derivations(rules, "S", words, depth=3)]
        found = parser.k_best(words, 1)
        assert bool(found) == parser.recognize(words)
        assert bool(found) or parser.count(words) == 0
        if listed:
            assert found[0].log_weight >= math.log(max(listed)) - 1e-9
