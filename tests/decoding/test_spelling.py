"""Constraints on text for models of tokens."""

from __future__ import annotations

import re

import pytest

from catena.decoding.beam import beam
from catena.decoding.constrained import Constrained
from catena.decoding.machine import MachineAcceptor
from catena.decoding.spelling import spelled
from catena.errors import ConfigError
from catena.structure.automaton.regex import from_regex
from catena.structure.automaton.symbols import Symbols
from tests.decoding.models import random_table
from tests.oracle.search import strings

TOKENS = {0: "a", 1: "ab", 2: "b", 3: "ba", 5: "c"}
V, END = 6, 4


@pytest.mark.parametrize("pattern", ["(ab)*", "a+b", "(a|b){3}", "ab|aba", ""])
@pytest.mark.parametrize("symbols", [None, Symbols("abd")])
def test_tokens_write_what_the_pattern_reads(pattern: str, symbols: Symbols | None) -> None:
    acceptor = MachineAcceptor(spelled(from_regex(pattern, symbols=symbols), TOKENS, symbols), V)
    for ids in strings(V, END, 3):
        text = "".join(TOKENS[id] for id in ids)
        assert acceptor.accepts(ids) == bool(re.fullmatch(pattern, text)), (ids, text)


def test_a_search_over_tokens_keeps_to_a_pattern_of_characters() -> None:
    acceptor = MachineAcceptor(spelled(from_regex("(ab)*ba"), TOKENS), V)
    for seed in range(5):
        constrained = Constrained(random_table(V, 2, END, seed), acceptor, max_length=6)
        for h in beam(constrained, constrained.start(1), 3, 6, n_best=3)[0]:
            assert re.fullmatch("(ab)*ba", "".join(TOKENS[id] for id in h.ids))
            assert h.finished


def test_tokens_without_text_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="tokens must have a text, and there must be some, but of 2 \\[1\\] have none"
    ):
        spelled(from_regex("a"), {0: "a", 1: ""})
