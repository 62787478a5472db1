"""Pronouncing dictionaries: variants, comments, and how they are told from other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.detect import detect_format
from catena.data.readers import dictionary

TEXT = ";;; a comment\ntomato  T AH0 M EY1 T OW2\ntomato(2)  T AH0 M AA1 T OW2\n'em AH0 M # short\n#hash HH AE1 SH\n"


def test_words_phonemes_variants_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text(TEXT, encoding="utf-8")
    pairs = [(pair.source, pair.target, pair.place.line) for pair in dictionary.read(path)]
    assert pairs == [
        ("tomato", "T AH0 M EY1 T OW2", 2),
        ("tomato", "T AH0 M AA1 T OW2", 3),
        ("'em", "AH0 M", 4),
        ("#hash", "HH AE1 SH", 5),
    ]


def test_a_word_without_phonemes_and_a_blank_line_are_pairs_with_an_empty_side(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text("word\n\n(2)\tT UW1\n", encoding="utf-8")
    assert [(p.source, p.target) for p in dictionary.read(path)] == [("word", ""), ("", ""), ("(2)", "T UW1")]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (TEXT, "dictionary"),
        ("top T AA1 P\n" * 3, "dictionary"),
        ("TOP T AA P\nTOP(2) T AO P\n", "dictionary"),
        ("THE CAT SAT ON A MAT\nIT IS SO\n", "text"),
    ],
)
def test_it_is_known_by_its_stresses_or_variants(text: str, format: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8")
    assert detect_format(path).format == format


def test_cmudict(real_data: Path) -> None:
    path = real_data / "cmudict" / "cmudict.dict"
    assert detect_format(path).format == "dictionary"
    pairs = list(dictionary.read(path))
    assert len(pairs) == 135_166
    assert len({pair.source for pair in pairs}) == 126_052
    assert not any("(" in pair.source or "#" in pair.target or not pair.target for pair in pairs)
