"""Grammars as parsers: estimates, predictions against enumeration, given brackets, sentences without a parse."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from catena.checkpoint import write_checkpoint
from catena.data.readers.brackets import to_text
from catena.errors import CheckpointError, DivergentSumError
from catena.grammar.compiled_chart import Beam
from catena.grammar.files import parse_grammar, read_grammar
from catena.grammar.parse import CFGParser
from catena.tasks.parse.config import ConstrainedParseOptions as Options
from catena.tasks.parse.constituency.grammar.task import SYMBOLS, GrammarTask, PCFGTask, WrittenGrammarTask
from catena.tasks.parse.constituency.trees import NO_PARSE, BracketConstraint, bracketing
from catena.tasks.parse.predict import ConstituencyPrediction
from catena.tasks.runs import load_task
from tests.tasks.parse.constituency.banks import grammar, model_config, sentence, trees

SENTENCE = ("the", "man", "sees", "a", "dog", "in", "the", "park")


def pcfg(**model: object) -> PCFGTask:
    return PCFGTask.count(model_config(kind="pcfg", **{"rare": 0, **model}), trees(150))


def written(text: str, **model: object) -> WrittenGrammarTask:
    return WrittenGrammarTask(model_config(kind="grammar", **model), parse_grammar(text))


def parsed(
    task: GrammarTask, words: tuple[str, ...], given: object = None, **options: object
) -> ConstituencyPrediction:
    example = sentence(*words, constraint=given)
    return task.predict_examples([example], Options.model_validate(options))[0]


# --- estimates --------------------------------------------------------------------------------------------------------


def test_counting_sampled_trees_recovers_the_grammar() -> None:
    parser = PCFGTask.count(model_config(kind="pcfg", vertical=1, horizontal="none", rare=0), trees(600, seed=1))
    found = {(rule.left.name, rule.right): rule.weight for rule in parser.grammar.rules}
    assert len(found) >= len(grammar().rules)
    for rule in grammar().rules:
        assert found[rule.left.name, rule.right] == pytest.approx(rule.weight, abs=0.06)


def test_markovized_trees_are_restored() -> None:
    for settings in ({"horizontal": 0}, {"horizontal": 2, "vertical": 3}, {"horizontal": None, "vertical": 1}):
        parser = pcfg(decoding="best", **settings)
        bank = trees(20, seed=5, longest=9)
        assert len(bank) == 20
        for tree in bank:
            texts = [to_text(answer.tree) for answer in parsed(parser, tree.words(), n_best=50).ranked]
            assert to_text(tree) in texts
            assert len(texts) == len(set(texts))


# --- predictions ------------------------------------------------------------------------------------------------------


def test_predictions_equal_enumeration() -> None:
    parser = pcfg(vertical=1, horizontal=None, decoding="best")
    plain = CFGParser(parser.grammar)
    listed = list(plain.parses(SENTENCE))
    total = math.fsum(math.exp(parse.log_weight) for parse in listed)
    found = parsed(parser, SENTENCE, n_best=10, confidence=True, scores=True)
    assert len(found.ranked) == len(listed) == 2
    for answer, parse in zip(found.ranked, listed, strict=True):
        assert answer.probability == pytest.approx(math.exp(parse.log_weight) / total)
        assert to_text(answer.tree) == str(parse)[len("(ROOT ") : -1]
    exact: dict[tuple[str, int, int], float] = {}
    for answer in found.ranked:
        for span in bracketing(answer.tree).spans:
            exact[span] = exact.get(span, 0.0) + (answer.probability or 0.0)
    assert found.brackets is not None
    assert {span: p for span, p in found.brackets.items() if span[0] != "ROOT"} == pytest.approx(exact)
    assert found.tags is not None
    assert found.tags[0] == pytest.approx({"D": 1.0})


def test_recall_decoding_has_the_most_expected_brackets() -> None:
    sure = parsed(pcfg(decoding="recall", price=0.99), SENTENCE)
    spans = set(bracketing(sure.tree).spans)
    assert ("VP", 2, 8) in spans
    assert not spans & {("NP", 3, 8)}  # neither attachment is probable enough
    greedy = parsed(pcfg(decoding="recall", price=0.0), SENTENCE)
    assert len(bracketing(greedy.tree).spans) > len(spans)
    best = parsed(pcfg(decoding="best"), SENTENCE)
    middle = parsed(pcfg(decoding="recall", price=0.5), SENTENCE)
    assert to_text(middle.tree) == to_text(best.tree)


def test_scored_tree_is_a_parse_of_the_grammar() -> None:
    found = parsed(pcfg(decoding="recall", price=0.99), SENTENCE, scores=True)
    best = parsed(pcfg(decoding="best"), SENTENCE, n_best=2)
    assert to_text(found.tree) == to_text(best.tree)
    assert found.ranked[0].log_prob == best.ranked[0].log_prob


def test_samples_are_parses_and_follow_the_seed() -> None:
    parser = pcfg()
    drawn = [parsed(parser, SENTENCE, samples=30, seed=7) for _ in range(2)]
    assert [to_text(a.tree) for a in drawn[0].ranked] == [to_text(a.tree) for a in drawn[1].ranked]
    assert len({to_text(a.tree) for a in drawn[0].ranked}) == 2


@pytest.mark.parametrize("decoding", ["best", "recall"])
def test_given_brackets_are_kept(decoding: str) -> None:
    parser = pcfg(decoding=decoding)
    low = (BracketConstraint(3, 8, "NP", True),)
    high = (BracketConstraint(3, 8, None, False),)
    for options in (Options(), Options(n_best=5), Options(samples=5)):
        for answer in parsed(parser, SENTENCE, low, **options.model_dump()).ranked:
            assert ("NP", 3, 8) in bracketing(answer.tree).spans
        for answer in parsed(parser, SENTENCE, high, **options.model_dump()).ranked:
            assert ("NP", 3, 8) not in bracketing(answer.tree).spans
    wrong = parsed(parser, SENTENCE, (BracketConstraint(3, 8, "PP", True),))
    assert wrong.note == "no parse has the given brackets"
    assert wrong.tree.label == NO_PARSE


def test_a_given_tag_is_kept() -> None:
    parser = written("S -> N V | V N\nN -> 'duck' | 'fish'\nV -> 'duck' | 'fish'")
    for tag, text in (("N", "(S (N fish) (V duck))"), ("V", "(S (V fish) (N duck))")):
        found = parsed(parser, ("fish", "duck"), (BracketConstraint(0, 1, tag, True),), n_best=3)
        assert [to_text(answer.tree) for answer in found.ranked] == [text]


def test_wide_beam_is_exact_and_narrow_beam_is_not() -> None:
    parser = pcfg(beam=200.0, decoding="best")
    assert isinstance(parser.charts.beam, Beam)
    exact = pcfg(decoding="best")
    for tree in trees(15, seed=9, longest=9):
        assert to_text(parsed(parser, tree.words()).tree) == to_text(parsed(exact, tree.words()).tree)
    narrow = pcfg(beam=0.01, decoding="best")
    assert any(parsed(narrow, tree.words()).note for tree in trees(15, seed=9, longest=9))


# --- sentences without a parse ----------------------------------------------------------------------------------------


def test_unknown_words_use_their_class_or_are_named() -> None:
    strange = ("the", "Zebra", "sees", "a", "dog")
    found = parsed(pcfg(rare=0), strange)
    assert found.tree.label == NO_PARSE
    assert "the grammar does not have the word 'Zebra'" in (found.note or "")
    classed = parsed(pcfg(rare=100), strange)
    assert classed.note is None
    assert bracketing(classed.tree).tags[:2] == ("D", "N")


def test_a_sentence_that_is_too_long_gets_a_flat_tree_and_a_note() -> None:
    words = ("the",) * 300
    found = parsed(pcfg(), words)
    assert found.note == "the sentence has 300 words, more than model.longest = 120, and was not parsed"
    assert len(found.tree.children) == 300
    assert found.tree.children[0].label == "D"
    assert parsed(pcfg(longest=2), ("a", "dog", "sees")).note is not None


def test_sentence_without_words_has_a_note() -> None:
    assert parsed(pcfg(), ()).note == "the sentence has no words"


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
    found = parsed(written(MEANT), ("who", "sees", "Rex", "in", "Rome"), n_best=5)
    assert found.n_parses == 2
    assert {answer.meaning for answer in found.ranked} == {
        r"\x.(see(x,rex) & at(x,rome))",
        r"\x.see(x,the(\y.(y = rex & at(y,rome))))",
    }
    nothing = parsed(written(MEANT), ("who", "hears", "Rex"))
    assert nothing.n_parses == 0
    assert "does not have the word 'hears'" in (nothing.note or "")


def test_parse_with_a_rule_without_meaning_has_none() -> None:
    found = parsed(written("S -> A B {sem: A.sem(B.sem)}\nA -> 'a' {sem: f}\nB -> 'b'"), ("a", "b"))
    assert found.ranked[0].meaning is None
    assert found.note is None


def test_infinitely_many_parses_are_not_counted() -> None:
    found = parsed(written("S -> S | 'a'"), ("a",))
    assert found.n_parses is None
    assert to_text(found.tree) == "(S a)"
    several = parsed(written("S -> S | 'a'"), ("a",), n_best=3)
    assert [to_text(answer.tree) for answer in several.ranked] == ["(S a)", "(S (S a))", "(S (S (S a)))"]
    assert several.ranked[0].log_prob is None
    with pytest.raises(DivergentSumError, match="lead from S back to itself over the same"):
        parsed(written("S -> S | 'a'"), ("a",), samples=3)
    assert parsed(written("S -> 'a'", count=False), ("a",)).n_parses is None


def test_words_in_another_case_and_escaped_brackets() -> None:
    text = "S -> 'yes' | '('"
    assert parsed(written(text, lowercase=True), ("YES",)).note is None
    assert parsed(written(text), ("YES",)).note is not None
    assert parsed(written(text), ("-LRB-",)).note is None


def test_saved_parser_loads_equal(tmp_path: Path) -> None:
    parser = pcfg(horizontal=1, rare=20, smoothing=1.0)
    write_checkpoint(tmp_path / "model", {}, parser.save_all)
    again = load_task(tmp_path / "model")
    assert isinstance(again, PCFGTask)
    assert again.grammar == parser.grammar
    for options in (Options(), Options(n_best=3, confidence=True)):
        one, two = (parsed(p, SENTENCE, **options.model_dump()) for p in (parser, again))
        assert [to_text(a.tree) for a in one.ranked] == [to_text(a.tree) for a in two.ranked]
        assert one.brackets == two.brackets


def test_damaged_model_is_rejected(tmp_path: Path) -> None:
    def damage(folder: Path) -> None:
        pcfg().save_all(folder)
        (folder / SYMBOLS).write_text("{")

    write_checkpoint(tmp_path / "model", {}, damage)
    with pytest.raises(CheckpointError, match=r"symbols\.json is damaged"):
        load_task(tmp_path / "model")


def test_number_of_parses_of_atis_sentences(real_data: Path) -> None:
    parser = WrittenGrammarTask(model_config(kind="grammar"), read_grammar(real_data / "grammars" / "atis.cfg"))
    lines = (real_data / "grammars" / "atis_sentences.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" : ") for line in lines if " : " in line and not line.startswith("#")]
    few = [(int(number), words.split()) for number, words in pairs if int(number) < 30]
    assert len(few) > 20
    for number, words in few:
        found = parsed(parser, tuple(words))
        assert found.n_parses == number
        assert (found.note is None) == (number > 0)
