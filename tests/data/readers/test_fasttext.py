from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import LabeledText, SourceLocation
from catena.data.readers import fasttext
from catena.errors import FormatError
from tests.data.readers.writing import file_with, labels, tokens

words = tokens.filter(lambda token: not token.startswith("__label__"))


@given(
    st.lists(
        st.tuples(st.lists(labels, min_size=1, max_size=3, unique=True), st.lists(words, max_size=4)),
        min_size=1,
        max_size=6,
    )
)
def test_round_trip(examples: list[tuple[list[str], list[str]]]) -> None:
    lines = [" ".join([*(f"__label__{name}" for name in names), *words]) for names, words in examples]
    with file_with("\n".join(lines)) as path:
        found = list(fasttext.read(path))
    assert [(e.labels, e.text) for e in found] == [(tuple(names), " ".join(words)) for names, words in examples]


def test_another_prefix_and_repeated_labels() -> None:
    place = SourceLocation("x", 1)
    assert fasttext.parse("#a #b #a hi there", place, prefix="#") == LabeledText("hi there", ("a", "b"), place)
    assert fasttext.parse("", place) == LabeledText("", (), place)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("hello", "txt:2 does not begin with __label__"),
        ("__label__ hello", "txt:2 has no name after __label__"),
    ],
)
def test_a_bad_line_is_named(line: str, problem: str) -> None:
    with file_with(f"__label__a x\n{line}\n") as path, pytest.raises(FormatError, match=problem):
        list(fasttext.read(path))
