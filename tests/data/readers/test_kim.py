from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import LabeledText, SourceLocation
from catena.data.readers import kim
from catena.errors import FormatError
from tests.data.readers.writing import file_with, labels, texts


@given(st.lists(st.tuples(labels, texts()), min_size=1))
def test_round_trip(examples: list[tuple[str, str]]) -> None:
    with file_with("".join(f"{label} {text}\n" for label, text in examples)) as path:
        found = list(kim.read(path))
    assert [(e.text, e.labels) for e in found] == [(text.strip(), (label,)) for label, text in examples]
    assert [e.place.line for e in found] == list(range(1, len(examples) + 1))


@pytest.mark.parametrize(
    ("line", "text", "found"),
    [
        ("0 simplistic , silly and tedious . ", "simplistic , silly and tedious .", ("0",)),
        ("0\ttab and blank", "tab and blank", ("0",)),
        ("DESC:manner How did it end ?", "How did it end ?", ("DESC:manner",)),
        ("1   far away", "far away", ("1",)),
        ("1", "", ("1",)),
        ("  ", "", ()),
    ],
)
def test_one_line(line: str, text: str, found: tuple[str, ...]) -> None:
    assert kim.parse(line, SourceLocation("x", 1)) == LabeledText(text, found, SourceLocation("x", 1))


def test_multilabel_of_one_text() -> None:
    assert kim.parse("a,b both", SourceLocation("x", 1), separator=",").labels == ("a", "b")


def test_line_with_leading_blank_raises_error() -> None:
    problem = "txt:2 must begin with a label, got a blank"
    with file_with("0 good\n bad\n") as path, pytest.raises(FormatError, match=problem):
        list(kim.read(path))
