"""Grammars as parsers: estimates, predictions against enumeration, given brackets, sentences without a parse."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from catena.data.readers.brackets import to_text
from catena.errors import DivergentSumError
from catena.grammar.files import parse_grammar, read_grammar
from catena.grammar.parse import CFGParser
from catena.grammar.sparse import Beam
from catena.tasks.application import PredictOptions
from catena.tasks.parse.constituency.config import GrammarParserConfig, PCFGParserConfig
from catena.tasks.parse.constituency.constraints import BracketConstraint
from catena.tasks.parse.constituency.treebank_pcfg import PcfgParser, WrittenParser
from catena.tasks.parse.constituency.trees import NO_PARSE, bracketing
from tests.tasks.parse.constituency.banks import grammar, trees

RNG = np.random.default_rng(0)
SENTENCE = ("the", "man", "sees", "a", "dog", "in", "the", "park")


def pcfg(**settings: object) -> PcfgParser:
    return PcfgParser.count(PCFGParserConfig.model_validate({"rare": 0, **settings}), trees(150))


def written(text: str, **settings: object) -> WrittenParser:
    return WrittenParser(GrammarParserConfig.model_validate(settings), parse_grammar(text))


# --- estimates --------------------------------------------------------------------------------------------------------


def test_counting_sampled_trees_recovers_the_grammar() -> None:
    parser = PcfgParser.count(PCFGParserConfig(vertical=1, horizontal=None, rare=0), trees(600, seed=1))
    found = {(rule.left.name, rule.right): rule.weight for rule in parser.charts.parser.grammar.rules}
    for rule in grammar().rules:
        assert found[rule.left.name, rule.right] == pytest.approx(rule.weight, abs=0.06)


def test_markovized_trees_are_restored() -> None:
    for settings in ({"horizontal": 0}, {"horizontal": 2, "vertical": 3}, {"horizontal": None, "vertical": 1}):
        parser = pcfg(decoding="best", **settings)
        for tree in trees(20, seed=5, longest=9):
            texts = [
                to_text(answer.tree)
                for answer in parser.parsed(tree.words(), PredictOptions(n_best=50), (), RNG).answers
            ]
            assert to_text(tree) in texts
            assert len(texts) == len(set(texts))


# --- predictions ------------------------------------------------------------------------------------------------------


def test_predictions_equal_enumeration() -> None:
    parser = pcfg(vertical=1, horizontal=None, decoding="best")
    plain = CFGParser(parser.charts.parser.grammar)
    listed = list(plain.parses(SENTENCE))
    total = math.fsum(math.exp(parse.log_weight) for parse in listed)
    found = parser.parsed(SENTENCE, PredictOptions(n_best=10, confidence=True, scores=True), (), RNG)
    assert len(found.answers) == len(listed) == 2
    for answer, parse in zip(found.answers, listed, strict=True):
        assert answer.probability == pytest.approx(math.exp(parse.log_weight) / total)
        assert to_text(answer.tree) == str(parse)[len("(ROOT ") : -1]
    exact: dict[tuple[str, int, int], float] = {}
    for answer in found.answers:
        for span in bracketing(answer.tree).spans:
            exact[span] = exact.get(span, 0.0) + (answer.probability or 0.0)
    assert found.brackets is not None
    assert {span: p for span, p in found.brackets.items() if span[0] != "ROOT"} == pytest.approx(exact)
    assert found.tags is not None
    assert found.tags[0] == pytest.approx({"D": 1.0})


def test_recall_decoding_has_the_most_expected_brackets() -> None:
    sure = pcfg(decoding="recall", price=0.99).parsed(SENTENCE, PredictOptions(), (), RNG)
    spans = set(bracketing(sure.tree).spans)
    assert ("VP", 2, 8) in spans
    assert not spans & {("NP", 3, 8)}  # neither attachment is probable enough
    greedy = pcfg(decoding="recall", price=0.0).parsed(SENTENCE, PredictOptions(), (), RNG)
    assert len(bracketing(greedy.tree).spans) > len(spans)
    best = pcfg(decoding="best").parsed(SENTENCE, PredictOptions(), (), RNG)
    middle = pcfg(decoding="recall", price=0.5).parsed(SENTENCE, PredictOptions(), (), RNG)
    assert to_text(middle.tree) == to_text(best.tree)


def test_scored_tree_is_a_parse_of_the_grammar() -> None:
    found = pcfg(decoding="recall", price=0.99).parsed(SENTENCE, PredictOptions(scores=True), (), RNG)
    best = pcfg(decoding="best").parsed(SENTENCE, PredictOptions(n_best=2), (), RNG)
    assert to_text(found.tree) == to_text(best.tree)
    assert found.answers[0].log_probability == best.answers[0].log_probability


def test_samples_are_parses_and_follow_the_seed() -> None:
    parser = pcfg()
    drawn = [parser.parsed(SENTENCE, PredictOptions(samples=30), (), np.random.default_rng(7)) for _ in range(2)]
    assert [to_text(a.tree) for a in drawn[0].answers] == [to_text(a.tree) for a in drawn[1].answers]
    assert len({to_text(a.tree) for a in drawn[0].answers}) == 2


@pytest.mark.parametrize("decoding", ["best", "recall"])
def test_given_brackets_are_kept(decoding: str) -> None:
    parser = pcfg(decoding=decoding)
    low = (BracketConstraint(3, 8, "NP", True),)
    high = (BracketConstraint(3, 8, None, False),)
    for options in (PredictOptions(), PredictOptions(n_best=5), PredictOptions(samples=5)):
        for answer in parser.parsed(SENTENCE, options, low, RNG).answers:
            assert ("NP", 3, 8) in bracketing(answer.tree).spans
        for answer in parser.parsed(SENTENCE, options, high, RNG).answers:
            assert ("NP", 3, 8) not in bracketing(answer.tree).spans
    wrong = parser.parsed(SENTENCE, PredictOptions(), (BracketConstraint(3, 8, "PP", True),), RNG)
    assert wrong.note == "no parse has the given brackets"
    assert wrong.tree.label == NO_PARSE


def test_a_given_tag_is_kept() -> None:
    parser = written("S -> N V | V N\nN -> 'duck' | 'fish'\nV -> 'duck' | 'fish'")
    for tag, text in (("N", "(S (N fish) (V duck))"), ("V", "(S (V fish) (N duck))")):
        found = parser.parsed(("fish", "duck"), PredictOptions(n_best=3), (BracketConstraint(0, 1, tag, True),), RNG)
        assert [to_text(answer.tree) for answer in found.answers] == [text]


def test_wide_beam_is_exact_and_narrow_beam_is_not() -> None:
    parser = pcfg(beam=200.0, decoding="best")
    assert isinstance(parser.charts.beam, Beam)
    exact = pcfg(decoding="best")
    for tree in trees(15, seed=9, longest=9):
        assert to_text(parser.parsed(tree.words(), PredictOptions(), (), RNG).tree) == to_text(
            exact.parsed(tree.words(), PredictOptions(), (), RNG).tree
        )
    narrow = pcfg(beam=0.01, decoding="best")
    assert any(narrow.parsed(tree.words(), PredictOptions(), (), RNG).note for tree in trees(15, seed=9, longest=9))


# --- sentences without a parse ----------------------------------------------------------------------------------------


def test_unknown_words_use_their_class_or_are_named() -> None:
    strange = ("the", "Zebra", "sees", "a", "dog")
    found = pcfg(rare=0).parsed(strange, PredictOptions(), (), RNG)
    assert found.tree.label == NO_PARSE
    assert "the grammar does not have the word 'Zebra'" in (found.note or "")
    classed = PcfgParser.count(PCFGParserConfig(rare=100), trees(150)).parsed(strange, PredictOptions(), (), RNG)
    assert classed.note is None
    assert bracketing(classed.tree).tags[:2] == ("D", "N")


def test_a_sentence_that_is_too_long_gets_a_flat_tree_and_a_note() -> None:
    words = ("the",) * 300
    found = pcfg().parsed(words, PredictOptions(), (), RNG)
    assert found.note == "the sentence has 300 words, more than model.longest = 120, and was not parsed"
    assert len(found.tree.children) == 300
    assert found.tree.children[0].label == "D"
    assert pcfg(longest=2).parsed(("a", "dog", "sees"), PredictOptions(), (), RNG).note is not None


def test_sentence_without_words_has_a_note() -> None:
    assert pcfg().parsed((), PredictOptions(), (), RNG).note == "the sentence has no words"


# --- handwritten grammars ---------------------------------------------------------------------------------------------

MEANT = r"""
Q  -> 'who' VP      {sem: \x.VP.sem(x)}
VP -> V NP          {sem: \x.V.sem(x, NP.sem)}
VP -> V NP PP       {sem: \x.(V.sem(x, NP.sem) & PP.sem(x))}
NP -> 'Rex'         {sem: rex}
NP -> NP PP         {sem: the(\y.(y = NP.sem & PP.sem(y)))}
PP -> 'in' 'Rome'   {sem: \x.at(x, rome)}
V  -> 'sees'        {sem: see}
"""


def test_parses_have_counts_and_meanings() -> None:
    found = written(MEANT).parsed(("who", "sees", "Rex", "in", "Rome"), PredictOptions(n_best=5), (), RNG)
    assert found.parses == 2
    assert {answer.meaning for answer in found.answers} == {
        r"\x.(see(x,rex) & at(x,rome))",
        r"\x.see(x,the(\y.(y = rex & at(y,rome))))",
    }
    nothing = written(MEANT).parsed(("who", "hears", "Rex"), PredictOptions(), (), RNG)
    assert nothing.parses == 0
    assert "does not have the word 'hears'" in (nothing.note or "")


def test_parse_with_a_rule_without_meaning_has_none() -> None:
    found = written("S -> A B {sem: A.sem(B.sem)}\nA -> 'a' {sem: f}\nB -> 'b'").parsed(
        ("a", "b"), PredictOptions(), (), RNG
    )
    assert found.answers[0].meaning is None
    assert found.note is None


def test_infinitely_many_parses_are_not_counted() -> None:
    found = written("S -> S | 'a'").parsed(("a",), PredictOptions(), (), RNG)
    assert found.parses is None
    assert to_text(found.tree) == "(S a)"
    several = written("S -> S | 'a'").parsed(("a",), PredictOptions(n_best=3), (), RNG)
    assert [to_text(answer.tree) for answer in several.answers] == ["(S a)", "(S (S a))", "(S (S (S a)))"]
    assert several.answers[0].log_probability is None
    with pytest.raises(DivergentSumError, match="lead from S back to itself over the same"):
        written("S -> S | 'a'").parsed(("a",), PredictOptions(samples=3), (), RNG)
    assert written("S -> 'a'", count=False).parsed(("a",), PredictOptions(), (), RNG).parses is None


def test_words_in_another_case_and_escaped_brackets() -> None:
    text = "S -> 'yes' | '('"
    assert written(text, lowercase=True).parsed(("YES",), PredictOptions(), (), RNG).note is None
    assert written(text).parsed(("YES",), PredictOptions(), (), RNG).note is not None
    assert written(text).parsed(("-LRB-",), PredictOptions(), (), RNG).note is None


def test_saved_parser_loads_equal(tmp_path: Path) -> None:
    parser = pcfg(horizontal=1, rare=20, smoothing=1.0)
    parser.save(tmp_path)
    again = PcfgParser.load(parser.settings, tmp_path)  # type: ignore[arg-type]
    assert again.charts.parser.grammar == parser.charts.parser.grammar
    for options in (PredictOptions(), PredictOptions(n_best=3, confidence=True)):
        one, two = (p.parsed(SENTENCE, options, (), RNG) for p in (parser, again))
        assert [to_text(a.tree) for a in one.answers] == [to_text(a.tree) for a in two.answers]
        assert one.brackets == two.brackets


def test_number_of_parses_of_atis_sentences(real_data: Path) -> None:
    parser = WrittenParser(GrammarParserConfig(), read_grammar(real_data / "grammars" / "atis.cfg"))
    lines = (real_data / "grammars" / "atis_sentences.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" : ") for line in lines if " : " in line and not line.startswith("#")]
    few = [(int(number), words.split()) for number, words in pairs if int(number) < 30]
    assert len(few) > 20
    for number, words in few:
        found = parser.parsed(tuple(words), PredictOptions(), (), RNG)
        assert found.parses == number
        assert (found.note is None) == (number > 0)
