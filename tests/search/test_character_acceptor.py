"""Patterns over characters that constrain sequences of words and subwords, compared to enumeration."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import ConfigError, ImpossibleError
from catena.search.acceptor import UNREACHABLE
from catena.search.character_acceptor import PieceAcceptor
from catena.search.constrained import Constrained
from catena.search.sampling import sample
from catena.structure.automaton.regex import from_regex
from tests.search.models import random_table

LATER = ["a", "ab", "b", " c", "bca", ""]
FIRST = ["a", "ab", "b", "c", "bca", ""]
ALPHABET = "abc "
PATTERNS = ["a*", "(ab|c)*", "[ab]{2,4}", "a( c)?b?", ".*c.*", "b?( c)+", "[^b]*", "(a|b|c| )*", "abca", "c c( c)?"]


def text_of(ids: tuple[int, ...]) -> str:
    return "".join((FIRST if i == 0 else LATER)[id] for i, id in enumerate(ids))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_piece_acceptor_accepts_sequences_whose_text_matches(pattern: str) -> None:
    acceptor = PieceAcceptor(from_regex(pattern, ALPHABET), LATER, FIRST)
    for length in range(5):
        for ids in itertools.product(range(5), repeat=length):
            assert acceptor.accepts(ids) == bool(re.fullmatch(pattern, text_of(ids))), (ids, text_of(ids))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_piece_acceptor_needed_is_the_minimum(pattern: str) -> None:
    acceptor = PieceAcceptor(from_regex(pattern, ALPHABET), LATER, FIRST)
    longest = 6
    for prefix in [(), *((id,) for id in range(6)), *itertools.product(range(6), repeat=2)]:
        place = acceptor.start()
        dead = False
        for id in prefix:
            dead = dead or acceptor.options(place).needed[id] >= UNREACHABLE
            place = place if dead else acceptor.step(place, id)
        if dead:
            continue
        least = next(
            (
                n
                for n in range(longest)
                for rest in itertools.product(range(5), repeat=n)
                if re.fullmatch(pattern, text_of(prefix + rest)) and 5 not in prefix
            ),
            None,
        )
        assert least is None or acceptor.options(place).shortest == least, (prefix, least)


def test_piece_acceptor_never_allows_ids_without_text() -> None:
    acceptor = PieceAcceptor(from_regex(".*", ALPHABET), LATER, FIRST)
    assert acceptor.options(acceptor.start()).needed[5] == UNREACHABLE
    assert acceptor.options(acceptor.start()).needed[0] == 0


@given(st.sampled_from(PATTERNS), st.integers(0, 20))
def test_piece_acceptor_samples_match_the_pattern(pattern: str, seed: int) -> None:
    stepper = Constrained(random_table(6, 1, 5), PieceAcceptor(from_regex(pattern, ALPHABET), LATER, FIRST), 9)
    (row,) = sample(stepper, stepper.start(1), torch.Generator().manual_seed(seed), 9, n=3)
    assert len(row) > 0
    for one in row:
        assert one.finished
        assert re.fullmatch(pattern, text_of(one.ids))


def test_piece_acceptor_impossible_pattern_raises() -> None:
    with pytest.raises(ImpossibleError, match="does not accept any text that the vocabulary can write"):
        PieceAcceptor(from_regex("xyz"), LATER, FIRST)


def test_piece_acceptor_too_few_first_texts_raise() -> None:
    with pytest.raises(ConfigError, match="for each of 6 ids, got 1"):
        PieceAcceptor(from_regex("a"), LATER, ["a"])


def test_piece_acceptor_computes_each_state_once() -> None:
    acceptor = PieceAcceptor(from_regex("a*", ALPHABET), LATER, FIRST)
    place = acceptor.step(acceptor.start(), 0)
    assert acceptor.step(place, 0) == place
    assert np.shares_memory(acceptor._after(place), acceptor._after(place))
