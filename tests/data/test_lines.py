from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data import lines
from catena.data.files import open_text
from catena.data.lines import LineIndex
from catena.errors import FormatError

characters = st.sampled_from("ab\n\r\u2028\x0c\x85é漢")


@given(st.text(characters), st.integers(1, 5))
def test_the_index_gives_the_lines_that_reading_gives(text: str, chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)  # line ends fall on the borders of chunks
        path = Path(folder) / "x"
        path.write_bytes(text.encode())
        with open_text(path) as stream:
            expected = [line for _, line in stream]
        index = LineIndex(path)
        assert list(index) == expected
        assert len(index) == len(expected)
        assert index[::-1] == expected[::-1]


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    path = tmp_path / "numbered.txt"
    path.write_text("".join(f"line {i}\n" for i in range(1, 1001)))
    return path


def test_index_out_of_range_raises_error(numbered: Path) -> None:
    index = LineIndex(numbered)
    assert (index[0], index[-1], index[-1000]) == ("line 1", "line 1000", "line 1")
    for i in (1000, -1001):
        with pytest.raises(IndexError, match=f"must be below 1,000 for .*, got {i}"):
            index[i]


def test_invalid_line_raises_error_when_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"good\nbr\xe9ken\nN\0L\n")
    index = LineIndex(tmp_path / "x")
    assert index[0] == "good"
    with pytest.raises(FormatError, match="x:2 is not UTF-8: byte 0xe9"):
        index[1]
    with pytest.raises(FormatError, match="x:3 has a NUL byte"):
        index[2]


def test_missing_file_raises_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        LineIndex(tmp_path / "x")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a line of some words\n" * 400_000)
    tracemalloc.start()
    index = LineIndex(tmp_path / "x")
    assert index[399_999] == "a line of some words"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(index) == 400_000
    assert peak < 6 * lines.CHUNK_BYTES  # the file has eight chunks; the offsets alone are three
