"""Parsing compared with enumerated derivations, and on published grammars."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings

from catena.errors import DataError, DivergentSumError, ImpossibleError
from catena.grammar.cfg import Grammar
from catena.grammar.derivation import Derivation
from catena.grammar.files import parse_grammar, read_grammar
from catena.grammar.parse import CFGParser
from tests.grammar.grammars import TOY, built, rule_lists, strings
from tests.oracle.grammars import OracleRule, Tree, derivations, weight_up_to

SENTENCE = "I saw the man with a telescope"


def as_oracle(parse: Derivation, grammar: Grammar) -> Tree:
    """Return a parse in the form of the oracle."""
    number = {rule: at for at, rule in enumerate(grammar.rules)}
    return parse.fold(lambda node, parts: (number[node.rule], *parts))


# --- sums ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(rule_lists())
def test_total_is_sum_over_all_derivations(rules: list[OracleRule]) -> None:
    parser = CFGParser(built(rules))
    for words in [*strings(2), ("a", "b", "a"), ("b", "b", "b")]:
        wanted = weight_up_to(rules, "S", words, depth=90)
        assert math.exp(parser.log_total(words)) == pytest.approx(wanted, abs=1e-10)
        assert parser.recognize(words) == (wanted > 0)


def test_probabilistic_grammar_gives_probabilities() -> None:
    parser = CFGParser(parse_grammar("S -> 'a' S 'b' [0.4] | 'c' [0.6]"))
    for n in range(8):
        assert math.exp(parser.log_total(["a"] * n + ["c"] + ["b"] * n)) == pytest.approx(0.6 * 0.4**n, rel=1e-12)
    best, second = CFGParser(parse_grammar(TOY)).k_best(SENTENCE, 5)
    parser = CFGParser(parse_grammar(TOY))
    shares = [math.exp(parser.log_probability(parse)) for parse in (best, second)]
    assert sum(shares) == pytest.approx(1.0)
    assert shares[0] / shares[1] == pytest.approx(0.4 / 0.3)


def test_long_sentences_do_not_underflow() -> None:
    parser = CFGParser(parse_grammar("S -> S 'a' [1e-30] | 'a' [1e-30]"))
    assert parser.log_total(["a"] * 60) == pytest.approx(60 * math.log(1e-30), rel=1e-12)
    assert parser.parse(["a"] * 60).log_weight == pytest.approx(60 * math.log(1e-30), rel=1e-12)


# --- best parses --------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(rule_lists())
def test_best_parses_are_best_of_all_derivations(rules: list[OracleRule]) -> None:
    grammar = built(rules)
    parser = CFGParser(grammar)
    for words in strings(2):
        listed = sorted(derivations(rules, "S", words, depth=4), key=lambda item: -item[1])[:8]
        found = parser.k_best(words, 12)
        scores = [math.exp(parse.log_weight) for parse in found]
        assert scores == sorted(scores, reverse=True) or sorted(scores, reverse=True) == pytest.approx(scores)
        assert len(set(found)) == len(found)
        assert all(parse.words() == words and parse.rule.left == grammar.start for parse in found)
        # Every derivation that is better than the last one found must be among them, at any depth.
        last = scores[-1] * (1 + 1e-9) if len(found) == 12 else 0.0
        trees = {as_oracle(parse, grammar) for parse in found}
        assert all(tree in trees for tree, weight in listed if weight > last)


@settings(max_examples=25)
@given(rule_lists(mass=1.0))
def test_finitely_many_parses_are_listed_once(rules: list[OracleRule]) -> None:
    # Without empty and unit rules a derivation is at most as deep as its string is long.
    rules = [rule for rule in rules if len(rule[1]) > 1 or (rule[1] and isinstance(rule[1][0], str))]
    if not any(left == "S" for left, _, _ in rules):
        return
    grammar = built(rules)
    parser = CFGParser(grammar)
    for words in strings(3):
        listed = derivations(rules, "S", words, depth=4)
        found = list(parser.parses(words))
        assert Counter(as_oracle(parse, grammar) for parse in found) == Counter(tree for tree, _ in listed)
        assert parser.count(words) == len(listed)
        assert [parse.log_weight for parse in found] == pytest.approx(
            sorted((math.log(weight) for _, weight in listed), reverse=True), abs=1e-9
        )


def test_readings_of_sentence() -> None:
    verb_phrase, noun_phrase = map(str, CFGParser(parse_grammar(TOY)).parses(SENTENCE))
    assert "(VP (VP (V saw) (NP (Det the) (N man))) (PP with" in verb_phrase
    assert "(NP (NP (Det the) (N man)) (PP with" in noun_phrase


@pytest.mark.parametrize("weight", ["0.5", "1"])
def test_cycles_are_ranked_by_number_of_rounds(weight: str) -> None:
    parser = CFGParser(parse_grammar(f"S -> A [{weight}] | 'a' [0.5]\nA -> S [1] | '' [0.5]"))
    sizes = [len(parse.rules()) for parse in islice(parser.parses("a"), 6)]
    assert sizes == [1, 3, 5, 7, 9, 11]
    # S cannot reach a word through A only; cycles lead from S to S.
    assert [len(parse.rules()) for parse in islice(parser.parses(""), 4)] == [2, 4, 6, 8]


@pytest.mark.parametrize("around", ["S -> S [1]", "S -> T [1]\nT -> S [1]"])
def test_among_equal_weights_acyclic_parse_is_first(around: str) -> None:
    parser = CFGParser(parse_grammar(f"{around}\nS -> A A [1]\nA -> 'a' [1]"))
    first, second, third = parser.k_best("a a", 3)
    assert str(first) == "(S (A a) (A a))"
    assert str(second).count("(A a)") == str(third).count("(A a)") == 2
    assert len({first, second, third}) == 3


@pytest.mark.parametrize("rule", ["S -> A E", "S -> E A", "S -> E A E"])
def test_either_part_may_be_empty(rule: str) -> None:
    parser = CFGParser(parse_grammar(f"{rule}\nA -> 'a'\nE -> 'e' |"))
    assert parser.count("a") == 1
    assert parser.count("e a e") == (rule == "S -> E A E")


def test_empty_phrases_inside_empty_phrases() -> None:
    parser = CFGParser(parse_grammar("S -> S S [0.2] | E [0.3] | 'a' [0.5]\nE -> S E [0.1] | '' [0.9]"))
    parses = parser.k_best("a", 30)
    assert len(set(parses)) == 30
    assert all(parse.words() == ("a",) for parse in parses)
    assert str(parses[0]) == "(S a)"
    assert parser.parse("").log_weight == pytest.approx(math.log(0.3 * 0.9))


def test_weights_above_1_are_valid_outside_cycles() -> None:
    parser = CFGParser(parse_grammar("S -> A [99] | B [1]\nA -> 'a' [3]\nB -> A [500] | 'a' [1]"))
    assert [str(parse) for parse in parser.parses("a")] == ["(S (B (A a)))", "(S (A a))", "(S (B a))"]


def test_best_parse_of_long_sentence() -> None:
    words = ["a"] * 80
    left = CFGParser(parse_grammar("S -> S 'a' [0.5] | 'a' [0.5]"))
    assert len(left.parse(words).rules()) == 80
    assert left.count(words) == 1


# --- counts -------------------------------------------------------------------------------------------------


def test_large_counts_are_exact() -> None:
    parser = CFGParser(parse_grammar("S -> S S | 'a'"))
    catalan = [math.comb(2 * n, n) // (n + 1) for n in range(45)]
    assert [parser.count(["a"] * n) for n in range(1, 8)] == catalan[:7]
    assert parser.count(["a"] * 45) == catalan[44]
    assert catalan[44] > 2**64
    assert parser.count("b") == 0


def test_counting_infinitely_many_parses_raises() -> None:
    for text in ("S -> S | 'a'", "S -> E S | 'a'\nE -> ''", "S -> E 'a'\nE -> E E | ''"):
        parser = CFGParser(parse_grammar(text))
        with pytest.raises(DivergentSumError, match=r"infinitely many parses: the rules lead from [SE] back to [SE]"):
            parser.count("a")
        assert parser.recognize("a")
        assert parser.count("b") == 0


def test_cycle_above_1_has_no_best_parse_but_is_recognized() -> None:
    parser = CFGParser(parse_grammar("S -> S [2] | 'a' [1]"))
    assert parser.recognize("a")
    with pytest.raises(DivergentSumError, match="there is no best parse"):
        parser.parse("a")
    with pytest.raises(DivergentSumError, match="an infinite sum"):
        parser.log_total("a")


# --- words and errors ---------------------------------------------------------------------------------------


def test_sentences_without_parse() -> None:
    parser = CFGParser(parse_grammar(TOY))
    assert parser.k_best("the the", 3) == []
    assert parser.log_total("the the") == -math.inf
    assert list(parser.parses("")) == []
    with pytest.raises(ImpossibleError, match="'the man' has no parse, although the grammar has all its words"):
        parser.parse("the man")
    with pytest.raises(ImpossibleError, match=r"does not have the words 'mann', 'sow' \(did you mean 'man'\?\). Add"):
        parser.parse("the mann sow the mann")
    with pytest.raises(DataError, match="k must be at least 1, got 0"):
        parser.k_best("the man", 0)


def test_unknown_words_are_looked_up_by_their_class() -> None:
    grammar = parse_grammar("S -> N V\nN -> 'UNK' | 'dog'\nV -> 'barks'")
    parser = CFGParser(grammar, unknown=lambda word: ("UNK:cap", "UNK") if word.istitle() else ())
    parse = parser.parse("Aardvark barks")
    assert parse.words() == ("Aardvark", "barks")
    assert str(parse.rules()[1]) == "N -> 'UNK'"
    assert not parser.recognize("aardvark barks")


def test_rules_of_weight_0_are_in_no_parse() -> None:
    parser = CFGParser(parse_grammar("S -> 'a' [0] | 'b' [1]"))
    assert not parser.recognize("a")
    assert parser.log_total("a") == -math.inf
    assert parser.count("b") == 1


def test_nothing_is_recognized_if_all_rules_have_weight_0() -> None:
    parser = CFGParser(parse_grammar("S -> 'a' [0] | '' [0]"))
    for sentence in ("a", ""):
        assert not parser.recognize(sentence)
        assert parser.count(sentence) == 0
        assert parser.k_best(sentence, 2) == []


def test_rules_with_two_meanings_give_two_parses() -> None:
    grammar = parse_grammar("S -> 'bank' {sem: river} [0.3] | 'bank' {sem: money} [0.7]")
    assert [str(form) for form in CFGParser(grammar).logical_forms("bank")] == ["money", "river"]
    assert CFGParser(grammar).count("bank") == 2
    assert CFGParser(grammar).log_total("bank") == pytest.approx(0.0, abs=1e-12)


def test_grammar_without_sentences() -> None:
    parser = CFGParser(parse_grammar("S -> S 'a'"))
    assert not parser.recognize("a")
    assert parser.log_total("a a") == -math.inf


# --- published grammars -------------------------------------------------------------------------------------


def test_numbers_of_parses_of_atis_sentences(real_data: Path) -> None:
    parser = CFGParser(read_grammar(real_data / "grammars" / "atis.cfg"))
    lines = (real_data / "grammars" / "atis_sentences.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" : ") for line in lines if " : " in line and not line.startswith("#")]
    assert len(pairs) == 98
    counts = [int(number) for number, _ in pairs]
    # Under the runtime checks of the tests a large forest takes seconds, so sentences with more than a few hundred
    # parses only test the sum, which is fast.
    assert [round(math.exp(parser.log_total(words))) for _, words in pairs] == counts
    few = [(number, words) for number, (_, words) in zip(counts, pairs, strict=True) if number < 100]
    assert [parser.count(words) for _, words in few] == [number for number, _ in few]
    assert [len(list(parser.parses(words))) for _, words in few if words.count(" ") < 8] == [
        number for number, words in few if words.count(" ") < 8
    ]


def test_weighted_grammar_of_several_files(real_data: Path) -> None:
    folder = real_data / "grammars" / "holygrail_pcfg"
    grammar = read_grammar([folder / f"{name}.gr" for name in ("S1", "S2", "Vocab")]).normalized()
    parser = CFGParser(grammar)
    sentences = (folder / "dev.sen").read_text().splitlines()[:12]
    assert len(sentences) == 12
    for sentence in sentences:
        total, best = parser.log_total(sentence), parser.parse(sentence)
        assert best.words() == tuple(sentence.split())
        assert -math.inf < best.log_weight <= total < 0
