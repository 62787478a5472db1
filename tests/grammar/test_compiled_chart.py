"""Compiled charts compared with the reference implementation, and expectations with enumerated parses."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings

from catena.errors import DivergentSumError, LimitError
from catena.grammar import compiled_chart
from catena.grammar.binary import binary
from catena.grammar.chart import Chart, fill
from catena.grammar.closure import BEST, SUM, Algebra
from catena.grammar.compiled_chart import Beam, best_parse, expectations, fill_quickly, sampled_parse
from catena.grammar.derivation import Derivation
from catena.grammar.epsilon_removal import EpsilonClosure, close
from catena.grammar.files import parse_grammar
from catena.grammar.forest import Forest
from catena.grammar.parse import CFGParser
from catena.grammar.ranking import rank_parses
from tests.grammar.grammars import TOY, built, rule_lists, strings
from tests.oracle.grammars import OracleRule

SENTENCE = ["I", "saw", "the", "man", "with", "a", "telescope"]
CHAINS = """
S -> A A [0.5] | A [0.5]
A -> B [0.3] | 'a' [0.3] | A B [0.4]
B -> C [0.5] | 'a' [0.5]
C -> 'a' [0.6] | A A [0.4]
"""


def matched(closed: EpsilonClosure, words: list[str] | tuple[str, ...]) -> list[tuple]:
    return [closed.binary.words.get(word, ()) for word in words]


def charts(text_or_rules: str | list[OracleRule], words: list[str] | tuple[str, ...], algebra: Algebra) -> list[Chart]:
    grammar = parse_grammar(text_or_rules) if isinstance(text_or_rules, str) else built(text_or_rules)
    closed = close(binary(grammar), algebra)
    return [fill(closed, matched(closed, words)), fill_quickly(closed, matched(closed, words))]


@pytest.mark.parametrize("algebra", [BEST, SUM])
@settings(max_examples=25)
@given(rules=rule_lists())
def test_compiled_charts_equal_reference_charts(algebra: Algebra, rules: list[OracleRule]) -> None:
    for words in [*strings(2), ("a", "b", "a"), ("b", "b", "a", "b")]:
        plain, quick = charts(rules, words, algebra)
        assert quick.total == pytest.approx(plain.total, abs=1e-10)
        assert quick.values.shape == plain.values.shape
        np.testing.assert_allclose(quick.values, plain.values, atol=1e-10)


@pytest.mark.parametrize("algebra", [BEST, SUM])
def test_long_sentences_do_not_underflow(algebra: Algebra) -> None:
    plain, quick = charts("S -> S A [1e-30]\nS -> 'a' [1e-30]\nA -> 'a' [1e-30]", ["a"] * 40, algebra)
    assert quick.total == pytest.approx(plain.total, rel=1e-12)


@settings(max_examples=25)
@given(rules=rule_lists())
def test_best_parse_is_best(rules: list[OracleRule]) -> None:
    parser = CFGParser(built(rules))
    for words in [*strings(2), ("a", "b", "a"), ("b", "b", "a", "b")]:
        chart = charts(rules, words, BEST)[1]
        best, wanted = best_parse(chart, words), parser.k_best(words, 1)
        assert (best is None) == (not wanted)
        if best is not None:
            assert best.words() == words
            assert best.log_weight == pytest.approx(wanted[0].log_weight, abs=1e-9)


def test_free_cycle_is_not_repeated() -> None:
    (_, chart) = charts("S -> A [1.0] | 'b' [0.0]\nA -> S [1.0] | 'a' [1.0]", ["a"], BEST)
    assert str(best_parse(chart, ["a"])) == "(S (A a))"
    (_, chart) = charts("S -> A\nA -> B | C\nB -> A\nC -> 'a'", ["a"], BEST)
    assert str(best_parse(chart, ["a"])) == "(S (A (C a)))"


def test_free_cycles_are_detected() -> None:
    for text, free in (
        ("S -> A | 'a'\nA -> S", True),
        ("S -> A [0.5] | 'a' [0.5]\nA -> S [1.0]", False),
        ("S -> S | 'a'", True),
    ):
        assert compiled_chart._has_free_circles(close(binary(parse_grammar(text)), BEST)) == free


# --- expectations -----------------------------------------------------------------------------------------------------


def listed(parses: list[Derivation]) -> tuple[Counter, Counter]:
    """Return the expected count of each symbol over each span and as the tag of each word, by enumeration."""
    total = math.fsum(math.exp(parse.log_weight) for parse in parses)
    spans: Counter = Counter()
    tags: Counter = Counter()
    for parse in parses:
        share = math.exp(parse.log_weight) / total

        def walk(node: Derivation, at: int, share: float = share) -> int:
            first = at
            for child in node.children:
                at = at + 1 if isinstance(child, str) else walk(child, at)
            spans[node.label, first, at] += share
            if node.children and len(node.children) == 1 and isinstance(node.children[0], str):
                tags[node.label, first] += share
            return at

        walk(parse, 0)
    return spans, tags


def check_expectations(closed: EpsilonClosure, words: tuple[str, ...], parses: list[Derivation]) -> None:
    found = expectations(closed, matched(closed, words))
    if not parses:
        assert found is None
        return
    assert found is not None
    spans, tags = listed(parses)
    n_named = len(closed.binary.grammar.nonterminals)
    for a, symbol in enumerate(closed.binary.symbols[:n_named]):
        for i in range(len(words)):
            for j in range(i + 1, len(words) + 1):
                column = found.chart.column[a]
                count = 0.0 if column == found.counts.shape[-1] - 1 else found.counts[i, j, column]
                assert count == pytest.approx(spans[symbol.name, i, j], abs=1e-10)
            assert found.tags[i].get(a, 0.0) == pytest.approx(tags[symbol.name, i], abs=1e-10)


@settings(max_examples=40)
@given(rules=rule_lists(most_rules=3))
def test_expectations_equal_enumeration(rules: list[OracleRule]) -> None:
    grammar = built(rules)
    assume(all(right for _, right, _ in rules))
    parser, closed = CFGParser(grammar), close(binary(grammar), SUM)
    for words in [("a",), ("a", "b"), ("b", "a", "b"), ("a", "a", "b", "a")]:
        try:
            n = parser.count(words)
        except DivergentSumError:
            continue
        if n <= 50:
            check_expectations(closed, words, list(parser.parses(words)))


def test_expectations_of_chains_of_unit_rules() -> None:
    grammar = parse_grammar(CHAINS)
    closed, parser = close(binary(grammar), SUM), CFGParser(grammar)
    for n in (1, 2, 3):
        check_expectations(closed, ("a",) * n, list(parser.parses(("a",) * n)))


def test_sample_frequencies_match_probabilities() -> None:
    closed = close(binary(parse_grammar(TOY)), SUM)
    chart, rng = fill_quickly(closed, matched(closed, SENTENCE)), np.random.default_rng(3)
    drawn = Counter(str(sampled_parse(chart, SENTENCE, rng)) for _ in range(400))
    parser = CFGParser(parse_grammar(TOY))
    wanted = {str(parse): math.exp(parser.log_probability(parse)) for parse in parser.parses(SENTENCE)}
    assert set(drawn) == set(wanted)
    statistic = sum((drawn[text] - 400 * p) ** 2 / (400 * p) for text, p in wanted.items())
    assert statistic < 15.1  # one degree of freedom, 1 in 10,000


def test_sentence_without_parse_gives_none() -> None:
    for algebra in (BEST, SUM):
        chart = charts(TOY, ["I", "I"], algebra)[1]
        assert chart.total == -math.inf
        assert best_parse(chart, ["I", "I"]) is None
    closed = close(binary(parse_grammar(TOY)), SUM)
    assert expectations(closed, matched(closed, ["I", "I"])) is None
    assert expectations(closed, []) is None
    assert sampled_parse(chart, ["I", "I"], np.random.default_rng(0)) is None


def test_beam_prunes_low_scores_and_prior_can_prevent_it() -> None:
    closed = close(binary(parse_grammar("S -> A A [1.0] | B B [1.0]\nA -> 'a' [0.9]\nB -> 'a' [0.1]")), SUM)
    names = [symbol.name for symbol in closed.binary.symbols]
    prior = np.zeros(len(names))

    def total(width: float) -> float:
        return fill_quickly(closed, matched(closed, ["a", "a"]), beam=Beam(width, prior)).total

    assert total(5.0) == pytest.approx(math.log(0.81 + 0.01))
    assert total(1.0) == pytest.approx(math.log(0.81))
    prior[names.index("B")] = math.log(10.0)
    assert total(1.0) == pytest.approx(math.log(0.81 + 0.01))
    prior[names.index("B")] = math.log(1000.0)
    assert total(1.0) == pytest.approx(math.log(0.01))
    best = close(binary(closed.binary.grammar), BEST)
    chart = fill_quickly(best, matched(best, ["a", "a"]), beam=Beam(1.0, prior))
    assert str(best_parse(chart, ["a", "a"])) == "(S (B a) (B a))"


@pytest.mark.parametrize("width", [0.1, 1.0])
@settings(max_examples=25)
@given(rules=rule_lists())
def test_beam_returns_valid_parse(width: float, rules: list[OracleRule]) -> None:
    grammar = built(rules)
    closed, sums = (close(binary(grammar), algebra) for algebra in (BEST, SUM))
    beam = Beam(width, np.zeros(len(closed.binary.symbols)))
    for words in [("a",), ("a", "b", "a"), ("b", "b", "a", "b")]:
        found = best_parse(fill_quickly(closed, matched(closed, words), beam), words)
        chart = fill_quickly(sums, matched(sums, words), beam)
        drawn = sampled_parse(chart, words, np.random.default_rng(0))
        for parse in (found, drawn):
            assert parse is None or parse.words() == words


def test_chart_above_limit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_chart, "MOST_NUMBERS", 100)
    with pytest.raises(LimitError, match="got 504 for 7 words and the 8 symbols"):
        charts(TOY, SENTENCE, BEST)


def test_bars_keep_parses_with_brackets() -> None:
    grammar = parse_grammar(TOY)
    names = [symbol.name for symbol in binary(grammar).symbols]
    wanted = {parse for parse in CFGParser(grammar).parses(SENTENCE) if "(NP (NP" in str(parse)}
    only_np = np.array([name == "NP" for name in names])
    nothing = np.zeros(len(names), bool)
    bars = {(2, 7): only_np, (1, 4): nothing}
    best, sums = close(binary(grammar), BEST), close(binary(grammar), SUM)
    chart = fill_quickly(best, matched(best, SENTENCE), bars=bars)
    assert {best_parse(chart, SENTENCE)} == wanted
    assert {parse for (parse,) in rank_parses(Forest(chart, [(word,) for word in SENTENCE]))} == wanted
    (parse,) = wanted
    total = fill_quickly(sums, matched(sums, SENTENCE), bars=bars)
    assert total.total == pytest.approx(parse.log_weight)
    drawn = {sampled_parse(total, SENTENCE, np.random.default_rng(seed)) for seed in range(10)}
    assert drawn == wanted
    found = expectations(sums, matched(sums, SENTENCE), bars=bars)
    assert found is not None
    assert found.counts[2, 7, found.chart.column[names.index("NP")]] == pytest.approx(1.0)


def test_chains_above_barred_span_stay() -> None:
    grammar = parse_grammar("S -> A [0.5] | B B [0.5]\nA -> B B [1.0]\nB -> 'b' [1.0]")
    names = [symbol.name for symbol in binary(grammar).symbols]
    closed = close(binary(grammar), BEST)
    chart = fill_quickly(closed, matched(closed, ["b", "b"]), bars={(0, 2): np.array([n == "A" for n in names])})
    assert str(best_parse(chart, ["b", "b"])) == "(S (A (B b) (B b)))"
