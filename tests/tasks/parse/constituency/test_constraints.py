"""Given brackets: reading and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.errors import DataError, FormatError
from catena.tasks.parse.constituency.trees import BracketConstraint, check_given, crossing_spans, read_given


def given(folder: Path, text: str) -> list[tuple[BracketConstraint, ...]]:
    path = folder / "given.txt"
    path.write_text(text, encoding="utf-8")
    return list(read_given(path))


def test_read_given_has_one_line_per_sentence(tmp_path: Path) -> None:
    assert given(tmp_path, "1-3:NP 5-9 !2-4\n_\n\n2-2:NN\n") == [
        (
            BracketConstraint(0, 3, "NP", True),
            BracketConstraint(4, 9, None, True),
            BracketConstraint(1, 4, None, False),
        ),
        (),
        (),
        (BracketConstraint(1, 2, "NN", True),),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1:NP", r"given.txt:2.*has '1:NP', which is not a span"),
        ("0-3", r"has the span '0-3', whose first word is below 1 or after its last"),
        ("4-3", r"or after its last"),
        ("2-2", r"has '2-2', one word without its tag"),
        ("!1-3:NP", r"forbids '!1-3:NP' with a label"),
    ],
)
def test_invalid_spans_are_rejected_with_their_line(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        given(tmp_path, f"_\n{line}\n")


def test_brackets_must_fit_the_sentence_and_each_other() -> None:
    with pytest.raises(DataError, match="brackets must end at word 4 or before, got 2-5"):
        check_given((BracketConstraint(1, 5, None, True),), 4)
    with pytest.raises(DataError, match="the brackets 1-3 and 2-4 cross"):
        check_given((BracketConstraint(1, 4, None, True), BracketConstraint(0, 3, None, True)), 4)
    check_given(
        (
            BracketConstraint(1, 4, None, False),
            BracketConstraint(0, 3, None, True),
            BracketConstraint(0, 2, None, True),
        ),
        4,
    )


def test_crossed_spans() -> None:
    assert crossing_spans((BracketConstraint(1, 3, None, True), BracketConstraint(0, 2, None, False)), 4) == {
        (0, 2),
        (2, 4),
    }
    assert crossing_spans((BracketConstraint(0, 4, None, True), BracketConstraint(1, 2, None, True)), 4) == set()
