from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import LabeledText, SourceLocation
from catena.data.readers import tsv_label
from catena.errors import FormatError
from tests.data.readers.writing import file_with, labels, texts

pairs = st.lists(st.tuples(labels, texts()), min_size=1)


@given(pairs, st.booleans())
def test_round_trip(examples: list[tuple[str, str]], label_first: bool) -> None:
    if not label_first:  # a U+FEFF at the very beginning would be a byte-order mark
        examples = [(label, f"x{text}") for label, text in examples]
    lines = [f"{label}\t{text}" if label_first else f"{text}\t{label}" for label, text in examples]
    with file_with("\n".join(lines)) as path:
        found = list(tsv_label.read(path, label_first=label_first))
    assert [(e.text, e.labels) for e in found] == [(text.strip(), (label,)) for label, text in examples]
    assert [e.place.line for e in found] == list(range(1, len(examples) + 1))


def test_multilabel_of_one_text() -> None:
    with file_with("a|b\tboth\na||a |c\tagain\n\tnone\n") as path:
        assert [e.labels for e in tsv_label.read(path, separator="|")] == [("a", "b"), ("a", "c"), ()]


def test_text_may_contain_tabs() -> None:
    place = SourceLocation("x", 1)
    assert tsv_label.parse("a\tone\ttwo", place) == LabeledText("one\ttwo", ("a",), place)
    assert tsv_label.parse("one\ttwo\ta", place, label_first=False) == LabeledText("one\ttwo", ("a",), place)


def test_a_label_without_text_and_a_blank_line_are_examples() -> None:
    with file_with("a\t\n\nb\tx\n") as path:
        assert [(e.text, e.labels) for e in tsv_label.read(path)] == [("", ("a",)), ("", ()), ("x", ("b",))]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("label\ttext\na\tone\n", [("one", "a", 2)]),
        ("\ufeffText\tIntent\r\none\ta\r\n", [("one", "a", 2)]),
        ("label\tone\na\ttext\n", [("one", "label", 1), ("text", "a", 2)]),
        ("a\tone\nlabel\ttext\n", [("one", "a", 1), ("text", "label", 2)]),
        ("label\ttext\tmore\na\tone\n", [("text\tmore", "label", 1), ("one", "a", 2)]),
    ],
)
def test_header_is_not_an_example(content: str, found: list[tuple[str, str, int]]) -> None:
    with file_with(content) as path:
        assert [(e.text, e.labels[0], e.place.line) for e in tsv_label.read(path)] == found


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no tab here", r"file.txt:2 has no tab between label and text; the line is 'no tab here'\. Write every line"),
        ("\ttext", r"file.txt:2 must have a label before the tab, got nothing; the line is '\\ttext'"),
        ("x" * 200, r"the line is 'x{80}'…\."),
    ],
)
def test_invalid_line_raises_error(line: str, problem: str) -> None:
    with file_with(f"a\tgood\n{line}\n") as path, pytest.raises(FormatError, match=problem):
        list(tsv_label.read(path))


def test_missing_label_after_text_raises_error() -> None:
    problem = "txt:2 must have a label after the last tab"
    with file_with("good\ta\nbad\t\n") as path, pytest.raises(FormatError, match=problem):
        list(tsv_label.read(path, label_first=False))
