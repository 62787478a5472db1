"""Constraints compared with string functions: whole words in any segmentation, for every tokenizer."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest

from catena.errors import DataError
from catena.search.pieces import PieceAcceptor
from catena.tasks.letters import BROKEN, LETTER, OTHER, after_byte, is_letter, read_character
from catena.tasks.spelling import phrase_machine, prefix_machine
from catena.tasks.translate.dataset import prepare
from catena.tasks.translate.encoding import TextEncoding
from catena.tasks.translate.text_constraints import TranslationConstraints, build_acceptor, read_constraints
from tests.tasks.translate.toy import sentences, toy_config, write_files


def has_phrase(text: str, phrase: str) -> bool:
    """Whether a phrase occurs in a text as whole words, without adjacent letters."""
    before = r"(?<![A-Za-z])" if phrase[0].isalpha() else ""
    behind = r"(?![A-Za-z])" if phrase[-1].isalpha() else ""
    return re.search(before + re.escape(phrase) + behind, text) is not None


@pytest.mark.parametrize("phrase", ["a", "ab", "aa", "a a", "ab a", ". a", "b.", "a ab a"])
def test_phrase_automaton_accepts_texts_with_the_phrase(phrase: str) -> None:
    alphabet = "ab ."
    wanted, unwanted = (
        PieceAcceptor(phrase_machine(phrase, alphabet, read_character, w), list(alphabet)) for w in (True, False)
    )
    texts = ["".join(s) for n in range(5) for s in itertools.product(alphabet, repeat=n)]
    texts += ["".join(random.Random(i).choices(alphabet, k=9)) for i in range(100)]
    for text in texts:
        ids = [alphabet.index(c) for c in text]
        assert wanted.accepts(ids) == has_phrase(text, phrase), text
        assert unwanted.accepts(ids) == (not has_phrase(text, phrase)), text


def test_prefix_automaton_accepts_texts_with_the_prefix() -> None:
    acceptor = PieceAcceptor(prefix_machine("ab", "ab "), ["a", "b", " ", "ab", "ba"])
    assert acceptor.accepts([3])
    assert acceptor.accepts([0, 4, 2])
    assert not acceptor.accepts([1, 3])
    assert not acceptor.accepts([0])


TOKENS = {"bpe": {"size": 300}, "unigram": {"size": 300}, "bytes": {}, "characters": {}, "words": {}, "whitespace": {}}


def side_of(kind: str, folder: Path) -> TextEncoding:
    config = toy_config(write_files(folder), tokenizer={"kind": kind, **TOKENS[kind]}, vocabulary={"min_count": 1})
    return prepare(config).encoding.target


@pytest.mark.parametrize("kind", TOKENS)
def test_constraints_apply_to_text_for_every_tokenizer(kind: str, tmp_path: Path) -> None:
    side = side_of(kind, tmp_path)
    targets = [y.replace(".", " .") if kind == "whitespace" else y for _, y in sentences()[:60]]
    if kind == "whitespace":
        side = TextEncoding(side.tokenizer, type(side.vocabulary).count([y.split() for y in targets]))
    for constraints, holds in [
        (TranslationConstraints(must=("Hund",)), lambda y: has_phrase(y, "Hund")),
        (TranslationConstraints(must=("hört", "Kind")), lambda y: "hört" in y and "Kind" in y),
        (TranslationConstraints(without=("Katze", "das Kind")), lambda y: "Katze" not in y and "das Kind" not in y),
        (TranslationConstraints(prefix="Der Hund"), lambda y: y.startswith("Der Hund")),
        (
            TranslationConstraints(("heute",), ("Hund",), "Die"),
            lambda y: "heute" in y and "Hund" not in y and y.startswith("Die"),
        ),
    ]:
        acceptor = build_acceptor(constraints, side)
        answers = [acceptor.accepts(side.vocabulary.ids(side.tokenizer.tokens(y))) for y in targets]
        assert answers == [holds(y) for y in targets], constraints
        assert any(answers)
        assert not all(answers)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters"])
def test_phrase_inside_a_word_does_not_match(kind: str, tmp_path: Path) -> None:
    """Multibyte letters are letters, and multibyte marks are not."""
    side = side_of(kind, tmp_path)
    for text, stands in [
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
        if kind == "characters" and not set(text) <= set(side.vocabulary.symbols):
            continue
        ids = side.vocabulary.ids(side.tokenizer.tokens(text))
        assert build_acceptor(TranslationConstraints(must=("Hund",)), side).accepts(ids) == stands, text
        assert build_acceptor(TranslationConstraints(without=("Hund",)), side).accepts(ids) == (not stands), text


@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_phrases_may_start_and_end_with_multibyte_marks(kind: str, tmp_path: Path) -> None:
    side = side_of(kind, tmp_path)
    for text, stands in [("Ein „Hund“ sieht.", True), ("ö„Hund“ö", True), ("„Hund”", False), ("“Hund“", False)]:
        ids = side.vocabulary.ids(side.tokenizer.tokens(text))
        assert build_acceptor(TranslationConstraints(must=("„Hund“",)), side).accepts(ids) == stands, text
        assert build_acceptor(TranslationConstraints(without=("„Hund“",)), side).accepts(ids) == (not stands), text


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


def test_constraint_line_has_phrases_separated_by_tabs() -> None:
    assert TranslationConstraints.of("Haus\t-der Hund\t^Das \t+-x\t") == TranslationConstraints(
        ("Haus", "-x"), ("der Hund",), "Das"
    )
    assert not TranslationConstraints.of("  \t ")


def test_invalid_constraint_raises(tmp_path: Path) -> None:
    words = side_of("words", tmp_path)
    with pytest.raises(DataError, match="The constraint 'Zebra Hund' has words outside the vocabulary: 'Zebra'"):
        build_acceptor(TranslationConstraints(must=("Zebra Hund",)), words)
    assert build_acceptor(TranslationConstraints(without=("Zebra",)), words).accepts([5, 6]), (
        "an unknown word is never written anyway"
    )
    with pytest.raises(
        DataError, match="must consist of characters that the model knows, got 'Ω' with the unknown 'Ω'"
    ):
        build_acceptor(TranslationConstraints(prefix="Ω"), side_of("characters", tmp_path))
    (tmp_path / "empty").write_text("")
    with pytest.raises(DataError, match=r"is empty. Write one line for each text"):
        read_constraints(tmp_path / "empty")
    for wrong in ("a big cat\t-big", "-big cat\t^a big  cat"):
        (tmp_path / "both").write_text(f"dog\t-do\n{wrong}\n")
        with pytest.raises(DataError, match=r"both:2: .* got 'big.*' and 'a big  ?cat'. Remove one"):
            read_constraints(tmp_path / "both")
