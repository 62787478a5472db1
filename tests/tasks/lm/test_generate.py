"""Wishes for what a language model writes, beside plain string functions, whatever texts are cut into."""

from __future__ import annotations

import re

import pytest

from catena.data.settings import BpeTokens, ByteTokens, CharacterTokens, TokeniserSettings, UnigramTokens, WordTokens
from catena.data.tokenise import build_tokeniser
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError
from catena.lm.base import SPECIALS
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.generate import Wishes, acceptor_of

TEXTS = [
    "the cat sees a fish",
    "a catfish likes the cat, really",
    "fish",
    "the old man",
    "cats",
    "Müller sees the old cat!",
]
CUTS: list[TokeniserSettings] = [
    WordTokens(), CharacterTokens(), ByteTokens(), BpeTokens(size=280), UnigramTokens(size=280),
]  # fmt: skip


def encoding_of(settings: TokeniserSettings, texts: list[str]) -> LmEncoding:
    tokeniser = build_tokeniser(settings, texts)
    return LmEncoding(tokeniser, Vocabulary.count(map(tokeniser.tokens, texts), specials=SPECIALS), "line")


def accepted(wishes: Wishes, encoding: LmEncoding, texts: list[str]) -> list[bool]:
    acceptor = acceptor_of(wishes, encoding)
    return [acceptor.accepts(encoding.ids(text)) for text in texts]


@pytest.mark.parametrize("settings", CUTS, ids=lambda settings: settings.kind)
def test_phrases_are_whole_words_however_they_are_cut(settings: TokeniserSettings) -> None:
    encoding = encoding_of(settings, TEXTS)
    for phrase in ("cat", "fish", "old cat"):
        stands = [re.search(rf"\b{phrase}\b", text) is not None for text in TEXTS]
        assert accepted(Wishes(words=(phrase,)), encoding, TEXTS) == stands, phrase
        assert accepted(Wishes(without=(phrase,)), encoding, TEXTS) == [not one for one in stands], phrase


@pytest.mark.parametrize("settings", CUTS[1:], ids=lambda settings: settings.kind)
def test_scripts_without_blanks_have_no_words_to_be_whole(settings: TokeniserSettings) -> None:
    texts = ["文学是一种艺术形式", "他的医术很好", "艺 术"]
    assert accepted(Wishes(words=("艺术",)), encoding_of(settings, texts), texts) == [True, False, False]
    assert accepted(Wishes(without=("艺术",)), encoding_of(settings, texts), texts) == [False, True, True]


@pytest.mark.parametrize("settings", [*CUTS[:2], *CUTS[3:]], ids=lambda settings: settings.kind)
def test_a_pattern_matches_the_text_however_it_is_cut(settings: TokeniserSettings) -> None:
    """Subwords hold bytes that are no characters, which no pattern writes."""
    encoding = encoding_of(settings, [*TEXTS, "\0", "她"])
    found = accepted(Wishes(pattern="(the|a) .*[a-z]"), encoding, [*TEXTS, "the \0 cat"])
    assert found == [re.fullmatch("(the|a) .*[a-z]", text) is not None for text in TEXTS] + [False]


def test_a_phrase_that_is_wanted_and_forbidden_is_refused() -> None:
    encoding = encoding_of(WordTokens(), TEXTS)
    with pytest.raises(DataError, match="with 'the old  cat' and without 'old cat' cannot be written: drop one"):
        acceptor_of(Wishes(words=("the old  cat",), without=("old cat",)), encoding)
    assert accepted(Wishes(words=("cats",), without=("cat",)), encoding, ["cats", "cats cat"]) == [True, False]
