"""Constraints compared with string functions: whole words in any segmentation, for every tokenizer."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from catena.data.config import (
    BpeTokenizerConfig,
    ByteTokenizerConfig,
    CharacterTokenizerConfig,
    TokenizerConfig,
    UnigramTokenizerConfig,
    VocabularyConfig,
    WhitespaceTokenizerConfig,
    WordTokenizerConfig,
)
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import ConfigError, DataError
from catena.lm.base import SPECIALS
from catena.search.character_acceptor import PieceAcceptor
from catena.search.text_constraints import TextConstraints, phrase_automaton, prefix_automaton
from catena.search.word_characters import BROKEN, LETTER, OTHER, after_byte, is_letter, read_character


def has_phrase(text: str, phrase: str) -> bool:
    """Whether a phrase occurs in a text as whole words, without adjacent letters."""
    before = r"(?<![A-Za-z])" if phrase[0].isalpha() else ""
    behind = r"(?![A-Za-z])" if phrase[-1].isalpha() else ""
    return re.search(before + re.escape(phrase) + behind, text) is not None


@pytest.mark.parametrize("phrase", ["a", "ab", "aa", "a a", "ab a", ". a", "b.", "a ab a"])
def test_phrase_automaton_accepts_texts_with_the_phrase(phrase: str) -> None:
    alphabet = "ab ."
    wanted, unwanted = (
        PieceAcceptor(phrase_automaton(phrase, alphabet, read_character, w), list(alphabet)) for w in (True, False)
    )
    texts = ["".join(s) for n in range(5) for s in itertools.product(alphabet, repeat=n)]
    texts += ["".join(random.Random(i).choices(alphabet, k=9)) for i in range(100)]
    for text in texts:
        ids = [alphabet.index(c) for c in text]
        assert wanted.accepts(ids) == has_phrase(text, phrase), text
        assert unwanted.accepts(ids) == (not has_phrase(text, phrase)), text


def test_prefix_automaton_accepts_texts_with_the_prefix() -> None:
    acceptor = PieceAcceptor(prefix_automaton("ab", "ab "), ["a", "b", " ", "ab", "ba"])
    assert acceptor.accepts([3])
    assert acceptor.accepts([0, 4, 2])
    assert not acceptor.accepts([1, 3])
    assert not acceptor.accepts([0])


TOKENIZERS: dict[str, TokenizerConfig] = {
    "bpe": BpeTokenizerConfig(size=300),
    "unigram": UnigramTokenizerConfig(size=300),
    "bytes": ByteTokenizerConfig(),
    "characters": CharacterTokenizerConfig(),
    "words": WordTokenizerConfig(),
    "whitespace": WhitespaceTokenizerConfig(),
}
GERMAN = [
    f"{who} {does}{when} {whom}."
    for who in ("Der Hund", "Die Katze", "Ein Mann", "Das Kind")
    for does in ("sieht", "hört", "sucht")
    for when in ("", " heute", " im Garten")
    for whom in ("den Hund", "die Katze", "das Kind")
]
ENGLISH = [
    "the cat sees a fish",
    "a catfish likes the cat, really",
    "fish",
    "the old man",
    "cats",
    "Müller sees the old cat!",
]


class Accepts:
    """Whether a text satisfies constraints, by the acceptor of a tokenizer that was trained on some texts."""

    def __init__(self, kind: str, texts: list[str]) -> None:
        self.tokenizer = build_tokenizer(TOKENIZERS[kind], texts)
        symbols = self.tokenizer.symbols
        counts = Counter(token for text in texts for token in self.tokenizer.tokens(text))
        self.vocabulary = Vocabulary.from_counts(counts, VocabularyConfig(), specials=SPECIALS, symbols=symbols)

    def __call__(self, texts: list[str], **constraints: Any) -> list[bool]:
        acceptor = TextConstraints(**constraints).acceptor(self.tokenizer, self.vocabulary)
        return [acceptor.accepts(self.vocabulary.ids(self.tokenizer.tokens(text))) for text in texts]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_constraints_apply_to_text_for_every_tokenizer(kind: str) -> None:
    texts = [text.replace(".", " .") if kind == "whitespace" else text for text in GERMAN]
    accepts = Accepts(kind, texts)
    cases: list[tuple[dict[str, Any], Callable[[str], bool]]] = [
        ({"include": ("Hund",)}, lambda y: has_phrase(y, "Hund")),
        ({"include": ("hört", "Kind")}, lambda y: "hört" in y and "Kind" in y),
        ({"exclude": ("Katze", "das Kind")}, lambda y: "Katze" not in y and "das Kind" not in y),
        ({"prefix": "Der Hund"}, lambda y: y.startswith("Der Hund")),
        (
            {"include": ("heute",), "exclude": ("Hund",), "prefix": "Die"},
            lambda y: "heute" in y and "Hund" not in y and y.startswith("Die"),
        ),
    ]
    for constraints, holds in cases:
        accepted = accepts(texts, **constraints)
        assert accepted == [holds(text) for text in texts], constraints
        assert any(accepted)
        assert not all(accepted)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters"])
def test_phrase_inside_a_word_does_not_match(kind: str) -> None:
    """Multibyte letters are letters, and multibyte marks are not."""
    accepts = Accepts(kind, GERMAN)
    for text, holds in [
        ("Ein Hundehund sieht.", False),
        ("Ein Hundö sieht.", False),
        ("Ein öHund sieht.", False),
        ("Ein öHundö sieht.", False),
        ("Ein Hund\N{COMBINING DIAERESIS} sieht.", False),
        ("Ein Hund.", True),
        ("Ein „Hund“ sieht.", True),
        ("Ein Hund…", True),
        ("Ein öHund – Hund", True),
        ("Ein „Hundö“ sieht.", False),
    ]:
        if kind == "characters" and not set(text) <= set(accepts.vocabulary.symbols):
            continue
        assert accepts([text], include=("Hund",)) == [holds], text
        assert accepts([text], exclude=("Hund",)) == [not holds], text


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_phrases_may_start_and_end_with_multibyte_marks(kind: str) -> None:
    accepts = Accepts(kind, GERMAN)
    for text, holds in [("Ein „Hund“ sieht.", True), ("ö„Hund“ö", True), ("„Hund”", False), ("“Hund“", False)]:
        assert accepts([text], include=("„Hund“",)) == [holds], text
        assert accepts([text], exclude=("„Hund“",)) == [not holds], text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters", "words"])
def test_phrases_match_whole_words_in_any_segmentation(kind: str) -> None:
    accepts = Accepts(kind, ENGLISH)
    for phrase in ("cat", "fish", "old cat"):
        holds = [re.search(rf"\b{phrase}\b", text) is not None for text in ENGLISH]
        assert accepts(ENGLISH, include=(phrase,)) == holds, phrase
        assert accepts(ENGLISH, exclude=(phrase,)) == [not one for one in holds], phrase


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters"])
def test_phrases_match_anywhere_in_scripts_without_spaces(kind: str) -> None:
    texts = ["文学是一种艺术形式", "他的医术很好", "艺 术"]
    accepts = Accepts(kind, texts)
    assert accepts(texts, include=("艺术",)) == [True, False, False]
    assert accepts(texts, exclude=("艺术",)) == [False, True, True]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "words"])
def test_regex_matches_the_text_in_any_segmentation(kind: str) -> None:
    """Subwords with incomplete characters are never generated under a regular expression."""
    accepts = Accepts(kind, [*ENGLISH, "\0", "她"])
    accepted = accepts([*ENGLISH, "the \0 cat"], regex="(the|a) .*[a-z]")
    assert accepted == [re.fullmatch("(the|a) .*[a-z]", text) is not None for text in ENGLISH] + [False]
    with pytest.raises(ConfigError, match="this model generates bytes"):
        Accepts("bytes", ENGLISH)(ENGLISH, regex="a")


def test_excluded_phrase_in_a_required_one_raises() -> None:
    accepts = Accepts("words", ENGLISH)
    for required in ({"include": ("the old  cat",)}, {"prefix": "the old  cat"}):
        with pytest.raises(DataError, match=r"must not occur in a required one, got 'old cat' and 'the old  cat'"):
            accepts(ENGLISH, exclude=("old cat",), **required)
    assert accepts(["cats", "cats cat"], include=("cats",), exclude=("cat",)) == [True, False]


def test_phrase_that_cannot_be_generated_raises_unless_it_is_excluded() -> None:
    words = Accepts("words", GERMAN)
    with pytest.raises(DataError, match="The phrase 'Zebra Hund' has words outside the vocabulary: 'Zebra'"):
        words(GERMAN, include=("Zebra Hund",))
    assert all(words(GERMAN, exclude=("Zebra",)))
    with pytest.raises(DataError, match="must consist of characters that the model knows, got 'Ω' with the unknown"):
        Accepts("characters", GERMAN)(GERMAN, prefix="Ω")
    for kind in ("words", "characters"):
        for name in ("include", "exclude"):
            with pytest.raises(DataError, match="A phrase must have at least one word, got ''"):
                Accepts(kind, GERMAN)(GERMAN, **{name: ("",)})


def test_letters_of_bytes_equal_those_of_characters() -> None:
    letters = "aZ5ßªéøŁЖאبह한ｱ𐐀𝒳\N{COMBINING ACUTE ACCENT}\N{DEVANAGARI VOWEL SIGN I}\N{ZERO WIDTH JOINER}"
    marks = " .-_'\"\N{NO-BREAK SPACE}«»¿×÷–—‘’“”„…€→☃、。「」！？：،؟।🙂"
    for character in letters + marks + "漢がカกລမខ𠀀":  # no blanks stand between these
        state = OTHER
        for byte in character.encode():
            assert state != BROKEN
            state = after_byte(state, byte)
        assert state == is_letter(character) == (character in letters), character
    middle = after_byte(OTHER, 0xE2)
    assert middle not in (BROKEN, OTHER, LETTER)
    assert after_byte(middle, ord("a")) == BROKEN
