"""Files as blocks of bytes: together they are the text, and no word is cut."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.lines import byte_blocks
from catena.errors import FormatError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytes") / "text"


@given(st.text(st.sampled_from("ab é日\n\t\r"), max_size=60), st.integers(1, 9), st.booleans())
def test_blocks_are_the_text_and_end_after_a_word(path: Path, text: str, size: int, packed: bool) -> None:
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    blocks = list(byte_blocks(path, size=size))
    assert b"".join(blocks).decode() == text
    assert all(block[-1:] in (b" ", b"\n", b"\t") for block in blocks[:-1])
    assert all(blocks)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1", "shift_jis"])
def test_other_encodings_become_utf8(tmp_path: Path, encoding: str) -> None:
    text = "日本 です\n" * 5 if encoding == "shift_jis" else "café olé\n" * 5
    (tmp_path / "text").write_bytes(text.encode(encoding))
    given = None if encoding.startswith("utf") else encoding
    assert b"".join(byte_blocks(tmp_path / "text", given, size=7)).decode() == text


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        (b"fine\n" * 9 + b"b\xffd\n", None, r"text:10 is not UTF-8: byte 0xff, near .*--encoding cp1252"),
        (b"fine\nfine\n a\0b\n", None, r"text:3 has a NUL byte"),
        (b"\x81\x20", "shift_jis", r"is not shift_jis: .*Pass the encoding"),
        (b"\x1f\x8b\x08nothing", None, "damaged|compressed"),
    ],
)
def test_invalid_bytes_raise_error_with_line(tmp_path: Path, data: bytes, encoding: str | None, message: str) -> None:
    (tmp_path / "text").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        list(byte_blocks(tmp_path / "text", encoding, size=11))
