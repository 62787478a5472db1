"""A grammar as tensors agrees with the grammar."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings

from catena.errors import DataError, LimitError
from catena.grammar.dense import DenseGrammar
from catena.grammar.files import parse_grammar
from catena.grammar.normal_form import to_normal_form
from catena.grammar.parse import CFGParser
from tests.grammar.grammars import built, rule_lists, strings
from tests.oracle.grammars import OracleRule

GRAMMAR = """
S -> NP VP [1.0]
NP -> Det N [0.6] | NP PP [0.2] | 'I' [0.2]
VP -> V NP [0.6] | VP PP [0.3] | 'slept' [0.1]
PP -> 'with' NP [1.0]
Det -> 'a' [1.0]
N -> 'man' [0.5] | 'telescope' [0.5]
V -> 'saw' [1.0]
"""


def test_totals_and_best_parses_of_batch() -> None:
    normal = to_normal_form(parse_grammar(GRAMMAR))
    dense, parser = DenseGrammar(normal.grammar), CFGParser(normal.grammar)
    sentences = ["I saw a man with a telescope", "I slept", "I saw a man with a man with a telescope"]
    structure = dense.structure(sentences)
    assert structure.log_partition().tolist() == pytest.approx([parser.log_total(s) for s in sentences], abs=1e-10)
    best = structure.argmax()
    for sentence, spans, score in zip(sentences, best, structure.max().tolist(), strict=True):
        parse = dense.derivation(spans, sentence)
        assert parse.log_weight == pytest.approx(score, abs=1e-10)
        assert parse.log_weight == pytest.approx(parser.parse(sentence).log_weight, abs=1e-10)
        assert normal.restore(parse).words() == tuple(sentence.split())


@settings(max_examples=12)
@given(rule_lists())
def test_totals_of_any_grammar(rules: list[OracleRule]) -> None:
    grammar = built(rules)
    parser = CFGParser(grammar)
    known = (
        [words for words in strings(3) if words and set(words) <= grammar.trimmed().terminals]
        if grammar.useful_rules
        else []
    )
    assume(known)
    dense = DenseGrammar(to_normal_form(grammar).grammar)
    totals = dense.structure(known).log_partition().tolist()
    assert len(known) > 0
    for words, total in zip(known, totals, strict=True):
        assert math.exp(total) == pytest.approx(math.exp(parser.log_total(words)), abs=1e-10)


def test_grammars_without_dense_form_raise() -> None:
    with pytest.raises(DataError, match=r"not in Chomsky normal form. Convert it with to_normal_form"):
        DenseGrammar(parse_grammar(GRAMMAR))
    with pytest.raises(DataError, match="derives no sentence of one or more words"):
        DenseGrammar(parse_grammar("S -> ''"))
    dense = DenseGrammar(parse_grammar("S -> 'a' | 'b'"), dtype=torch.float32)
    assert dense.structure(["a"]).log_partition().tolist() == [0.0]
    with pytest.raises(DataError, match="does not have the word 'c' of sentence 2"):
        dense.structure(["a", "a c"])
    with pytest.raises(DataError, match="A sentence is empty"):
        dense.structure(["a", ""])
    many = "\n".join(f"A{i} -> A{i} A{i} | 'a'" for i in range(330))
    with pytest.raises(LimitError, match="got 330 x 660 x 660"):
        DenseGrammar(parse_grammar(many))
