"""Random sentences: frequencies match probabilities, equal seeds give equal samples, limits hold."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from catena.errors import DataError, LimitError
from catena.grammar.cfg import Grammar, Rule
from catena.grammar.files import parse_grammar
from catena.grammar.generate import Generator
from catena.grammar.parse import CFGParser
from tests.grammar.grammars import N

GRAMMAR = parse_grammar("S -> A S [2] | B [6]\nA -> 'a' [3] | 'x' [1]\nB -> 'b' [1] | '' [1] | 'b' 'b' [2]")


def chi_square_bound(cells: int) -> float:
    """Return a bound that a chi-square statistic exceeds with probability 1e-4 (Wilson and Hilferty 1931)."""
    k = cells - 1
    return k * (1 - 2 / (9 * k) + 3.72 * math.sqrt(2 / (9 * k))) ** 3


def test_string_frequencies_match_probabilities() -> None:
    parser, n = CFGParser(GRAMMAR.normalized()), 4000
    counts = Counter(parse.words() for parse in Generator(GRAMMAR, seed=7).draws(n))
    expected = {words: n * math.exp(parser.log_total(words)) for words in counts}
    common = {words: mean for words, mean in expected.items() if mean >= 8}
    assert len(common) > 8
    rest = n - sum(common.values())
    statistic = sum((counts[words] - mean) ** 2 / mean for words, mean in common.items())
    statistic += (n - sum(counts[words] for words in common) - rest) ** 2 / rest
    assert statistic < chi_square_bound(len(common) + 1)


def test_parse_frequencies_match_probabilities() -> None:
    grammar = parse_grammar("S -> A [0.1] | B [0.3] | 'x' [0.6]\nA -> 'x' [0.5] | B [0.5]\nB -> 'x' [1]")
    n = 3000
    counts = Counter(Generator(grammar, seed=1).draws(n))
    assert len(counts) == 4
    statistic = sum((counts[p] - n * math.exp(p.log_weight)) ** 2 / (n * math.exp(p.log_weight)) for p in counts)
    assert statistic < chi_square_bound(4)


def test_equal_seeds_give_equal_samples() -> None:
    first, again, other = (Generator(GRAMMAR, seed=seed).draws(20) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_samples_beyond_limits_raise_or_retry() -> None:
    endless = parse_grammar("S -> 'a' S [0.9] | 'b' [0.1]")
    with pytest.raises(LimitError, match=r"exceeded max_words=5. Raise the limit, or use beyond='retry'"):
        Generator(endless, max_words=5).draws(50)
    with pytest.raises(LimitError, match="exceeded max_depth=4"):
        Generator(endless, max_depth=4).draws(50)
    short = Generator(endless, max_depth=4, max_words=3, beyond="retry").draws(50)
    assert {len(parse.words()) for parse in short} == {1, 2, 3}
    with pytest.raises(LimitError, match="1,000 samples in a row exceeded max_depth=1"):
        Generator(parse_grammar("S -> A\nA -> 'a'"), max_depth=1, beyond="retry").draw()


def test_deep_samples_do_not_recurse() -> None:
    deep = Generator(parse_grammar("S -> 'a' S [9999] | 'b' [1]"), seed=2, max_depth=10**6, max_words=10**6).draw()
    assert len(deep.words()) > 1000


def test_invalid_grammars_and_options_raise() -> None:
    with pytest.raises(DataError, match=r"The nonterminal 'X' has no rule of positive weight. Give it one"):
        Generator(Grammar.of([Rule(N("S"), (N("X"),))])).draw()
    with pytest.raises(DataError, match="'S' has no rule of positive weight"):
        Generator(parse_grammar("S -> 'a' [0]")).draw()
    with pytest.raises(DataError, match="max_depth must be at least 1 and max_words at least 0, got 0 and 3"):
        Generator(GRAMMAR, max_depth=0, max_words=3)
    with pytest.raises(DataError, match=r"beyond must be .* got 'stop'"):
        Generator(GRAMMAR, beyond="stop")
