"""Texts of files that are read as plain text."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.formats import check_plain_text
from catena.errors import FormatError

PROSE = "It rained, and then it snowed.\nThe dog ran home.\n\nNo one saw it; the road was dark.\n" * 5


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conll", "The\tO\ndog\tB-X\n\nA\tO\ncat\tB-X\n\n" * 5, "got columns: .* Write one text in each line, or"),
        ("a.mrg", "(S (NP (D the) (N dog)) (V ran))\n" * 9, "got brackets: "),
        ("a.txt", "__label__a it rained\n__label__b it snowed\n" * 9, "got fasttext: "),
        (
            "b.txt",
            "text\tlabel\n" + "it rained\ta\nit snowed\tb\n" * 9,
            "got tsv: .* Pass --input-format tsv to",
        ),
        ("a.html", "<!DOCTYPE html>\n<html>\n<body>\n<p>It rained.</p>\n</body>\n</html>\n", "is a web page"),
    ],
)
def test_rows_of_another_format_are_not_read_as_text(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        check_plain_text(path)
    check_plain_text(path, "text")


@pytest.mark.parametrize("content", [PROSE, "one line only", "[1] (a) \"quoted\", 'x'\n* list\n\n\tindented\n" * 3])
def test_prose_is_plain_text(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf-8")
    check_plain_text(path)
