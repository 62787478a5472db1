from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import SourceLocation, Text
from catena.data.readers import text
from tests.data.readers.writing import file_with, texts


@given(st.lists(texts(), min_size=1))
def test_every_line_comes_back_as_it_was_with_its_number(lines: list[str]) -> None:
    if lines[0].startswith("\ufeff"):
        lines[0] = "x" + lines[0]  # at the very beginning it is a byte-order mark, no text
    with file_with("".join(line + "\n" for line in lines)) as path:
        expected = [Text(line, SourceLocation(str(path), number)) for number, line in enumerate(lines, start=1)]
        assert list(text.read(path)) == expected


def test_a_place_prints_as_file_and_line() -> None:
    assert str(SourceLocation("train.tsv", 17)) == "train.tsv:17"
