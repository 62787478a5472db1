"""Constraints on generated text, compared with string functions for every tokenizer."""

from __future__ import annotations

import re

import pytest

from catena.data.config import (
    BpeTokenizerConfig,
    ByteTokenizerConfig,
    CharacterTokenizerConfig,
    TokenizerConfig,
    UnigramTokenizerConfig,
    WordTokenizerConfig,
)
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError
from catena.lm.base import SPECIALS
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.generate import TextConstraints, build_acceptor

TEXTS = [
    "the cat sees a fish",
    "a catfish likes the cat, really",
    "fish",
    "the old man",
    "cats",
    "Müller sees the old cat!",
]
CUTS: list[TokenizerConfig] = [
    WordTokenizerConfig(),
    CharacterTokenizerConfig(),
    ByteTokenizerConfig(),
    BpeTokenizerConfig(size=280),
    UnigramTokenizerConfig(size=280),
]


def encoding_of(settings: TokenizerConfig, texts: list[str]) -> LmEncoding:
    tokenizer = build_tokenizer(settings, texts)
    return LmEncoding(tokenizer, Vocabulary.count(map(tokenizer.tokens, texts), specials=SPECIALS), "line")


def accepted(constraints: TextConstraints, encoding: LmEncoding, texts: list[str]) -> list[bool]:
    acceptor = build_acceptor(constraints, encoding)
    return [acceptor.accepts(encoding.ids(text)) for text in texts]


@pytest.mark.parametrize("settings", CUTS, ids=lambda settings: settings.kind)
def test_phrases_match_whole_words_in_any_segmentation(settings: TokenizerConfig) -> None:
    encoding = encoding_of(settings, TEXTS)
    for phrase in ("cat", "fish", "old cat"):
        stands = [re.search(rf"\b{phrase}\b", text) is not None for text in TEXTS]
        assert accepted(TextConstraints(words=(phrase,)), encoding, TEXTS) == stands, phrase
        assert accepted(TextConstraints(without=(phrase,)), encoding, TEXTS) == [not one for one in stands], phrase


@pytest.mark.parametrize("settings", CUTS[1:], ids=lambda settings: settings.kind)
def test_phrases_match_anywhere_in_scripts_without_spaces(settings: TokenizerConfig) -> None:
    texts = ["文学是一种艺术形式", "他的医术很好", "艺 术"]
    assert accepted(TextConstraints(words=("艺术",)), encoding_of(settings, texts), texts) == [True, False, False]
    assert accepted(TextConstraints(without=("艺术",)), encoding_of(settings, texts), texts) == [False, True, True]


@pytest.mark.parametrize("settings", [*CUTS[:2], *CUTS[3:]], ids=lambda settings: settings.kind)
def test_pattern_matches_the_text_in_any_segmentation(settings: TokenizerConfig) -> None:
    """Subwords with incomplete characters are never generated under a pattern."""
    encoding = encoding_of(settings, [*TEXTS, "\0", "她"])
    found = accepted(TextConstraints(pattern="(the|a) .*[a-z]"), encoding, [*TEXTS, "the \0 cat"])
    assert found == [re.fullmatch("(the|a) .*[a-z]", text) is not None for text in TEXTS] + [False]


def test_phrase_both_required_and_forbidden_raises() -> None:
    encoding = encoding_of(WordTokenizerConfig(), TEXTS)
    with pytest.raises(DataError, match=r"must not occur in --word, got 'old cat' and 'the old  cat'. Remove one"):
        build_acceptor(TextConstraints(words=("the old  cat",), without=("old cat",)), encoding)
    assert accepted(TextConstraints(words=("cats",), without=("cat",)), encoding, ["cats", "cats cat"]) == [True, False]
