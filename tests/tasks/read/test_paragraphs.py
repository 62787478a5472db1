"""Paragraphs of files and folders: offsets, blank lines, and files that are not text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError
from catena.tasks.read.ranking import read_paragraphs, split_paragraphs


@given(st.text(alphabet="ab \t\n\r\u00a0\u2028𝔸\u0301", max_size=30))
def test_paragraphs_are_the_text_without_blanks_between_them(text: str) -> None:
    found = list(split_paragraphs(text))
    for p in found:
        assert text[p.start : p.end] == p.text
        assert p.text.strip() == p.text != ""
        assert not any(not line.strip() for line in p.text.split("\n"))
        assert p.line == text.count("\n", 0, p.start) + 1
    kept = {i for p in found for i in range(p.start, p.end)}
    assert all(text[i].isspace() for i in range(len(text)) if i not in kept)


def test_blocks_are_split_at_blank_lines_only() -> None:
    found = list(split_paragraphs("a\n b\n \nc\n\n\n  d", "f"))
    assert [(p.text, p.line) for p in found] == [("a\n b", 1), ("c", 4), ("d", 7)]


def test_folder_is_read_in_order_and_binary_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"zwei\r\n\r\ndrei")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.md").write_text("eins", encoding="utf-8")
    (tmp_path / ".hidden").write_text("no", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("no", encoding="utf-8")
    (tmp_path / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\xff")
    counter = ReadCounter()
    found = read_paragraphs(tmp_path, counter)
    assert [p.text for p in found] == ["zwei", "drei", "eins"]
    assert [Path(p.file).name for p in found] == ["b.txt", "b.txt", "x.md"]
    assert counter.counts(2).sentence("") == "read 3; used 2; dropped 1 (1 not text)"
    assert "c.png" in counter.dropped[0].location.file
    assert [p.text for p in read_paragraphs(tmp_path / "b.txt")] == ["zwei", "drei"]


def test_missing_binary_and_empty_files_raise(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        read_paragraphs(tmp_path / "x.txt")
    (tmp_path / "c.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\xff")
    with pytest.raises(FormatError, match="PNG"):
        read_paragraphs(tmp_path / "c.png")
    (tmp_path / "c.png").write_text(" \n", encoding="utf-8")
    with pytest.raises(DataError, match=r"has no paragraph of text: read 1; used 1; dropped 0\. Add"):
        read_paragraphs(tmp_path)
