"""Where two files come apart: lines taken out of one of them are found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.pairing import are_sentences, likely_break


@pytest.mark.parametrize("extra", [1, 3])
def test_lines_that_are_missing_are_found(extra: int) -> None:
    rng = np.random.default_rng(0)
    for place in (0, 7, 100, 200 - extra):
        whole = rng.integers(5, 120, 200)
        counterpart = np.maximum(1, (whole * rng.uniform(1.0, 1.3, 200)).astype(int))
        short = np.delete(counterpart, range(place, place + extra))
        assert abs(likely_break(short.tolist(), whole.tolist()) - place) <= 1


def test_a_file_without_lines_comes_apart_at_once() -> None:
    assert likely_break([], [3, 4]) == 0


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("A man sleeps on a couch.\tEin Mann schläft auf einem Sofa.", True),
        ("我今天去学校\tI go to school today", True),
        ("phoomate\tF UW M EY T", False),
        ("F UW M EY T\tphoomate", False),
        ("New York\tnyu york", False),
        ("no tab at all here", False),
    ],
)
def test_pairs_are_sentences_if_both_sides_have_words(line: str, sentences: bool, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(f"{line}\n" * 5, encoding="utf-8")
    assert are_sentences(tmp_path / "x.tsv") == sentences
