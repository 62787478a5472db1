from __future__ import annotations

import contextlib
import gzip
import os
import re
import threading
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.files import decompress, open_damaged_text, open_text, read_head, shorten, stored_name
from catena.data.lines import byte_blocks
from catena.errors import FormatError
from tests.data.readers.writing import file_with

# What must not end a line, beside what must.
characters = st.sampled_from("ab\n\r\u2028\u2029\x0b\x0c\x1c\x1d\x1e\x85é漢")


def lines_of(text: str) -> list[str]:
    """The lines of a text, by the plain rule: cut after LF, CRLF or CR."""
    lines = re.sub("\r\n?", "\n", text).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read(path: Path, encoding: str | None = None) -> list[tuple[int, str]]:
    with open_text(path, encoding) as lines:
        return list(lines)


@given(st.text(characters))
def test_lines_end_at_lf_crlf_and_cr_and_nowhere_else(text: str) -> None:
    with file_with(text) as path:
        assert read(path) == list(enumerate(lines_of(text), start=1))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "latin-1", "gb18030", "shift_jis"])
def test_a_given_encoding_without_a_mark(encoding: str, tmp_path: Path) -> None:
    text = "one\r\ntwo\n" + ("漢字" if encoding != "latin-1" else "é")
    (tmp_path / "x").write_bytes(text.encode(encoding))
    assert [line for _, line in read(tmp_path / "x", encoding)] == lines_of(text)


def test_byte_order_mark_must_match_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes("é\n".encode("utf-8-sig"))
    assert read(path) == read(path, "utf-8") == read(path, "UTF8") == [(1, "é")]
    with pytest.raises(FormatError, match="must be utf-8 because of its byte-order mark, got 'latin-1'"):
        read(path, "latin-1")
    path.write_bytes("é\n".encode("utf-16"))
    assert read(path, "utf-16") == [(1, "é")]
    with pytest.raises(FormatError, match="must be utf-16 because of its byte-order mark"):
        read(path, "cp1252")


@pytest.mark.parametrize("encoding", ["latin-9x", "base64", "a\0b", "rot13"])
def test_unknown_encoding_raises_error(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\n")
    with pytest.raises(FormatError, match=f"Unknown encoding {re.escape(repr(encoding))}"):
        read(tmp_path / "x", encoding)


def test_lines_before_invalid_line_are_yielded(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"good\nbr\xe9ken\nmore\n")
    with open_text(tmp_path / "x") as lines:
        assert next(lines) == (1, "good")
        with pytest.raises(FormatError, match=r"x:2 is not UTF-8: byte 0xe9 at character 3, near 'brék"):
            next(lines)
    with open_damaged_text(tmp_path / "x") as lines:
        assert list(lines) == [(1, "good"), (2, "br\udce9ken"), (3, "more")]


@pytest.mark.parametrize(
    ("content", "encoding", "problem"),
    [
        (b"caf\xc3", None, r"x:1 is not UTF-8: byte 0xc3 at character 4"),
        (b"\xed\xa0\x80", None, r"x:1 is not UTF-8: byte 0xed"),
        (b"a\n\x81b\n", "cp1252", r"x:2 is not cp1252: byte 0x81 at character 1, .*--encoding utf-8"),
        (b"\xff\xfea\0b", None, r"x is not utf-16: .*truncated data.* after line 0"),
        (b"a\0b\n", None, r"x:1 has a NUL byte at character 2, near 'a\\x00b'\. Remove the byte"),
    ],
)
def test_invalid_bytes_raise_error_with_location(
    content: bytes, encoding: str | None, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match=problem):
        read(tmp_path / "x", encoding)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", r"x is a PNG picture, not a text file\. Pass a text file\.$"),
        (b"%PDF-1.4\n%\xe2\xe3\n", r"x is a PDF document, not a text"),
        (b"PK\x03\x04\x14\0\x06\0", r"x is damaged and cannot be decompressed"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"x is an old Office document such as \.xls \(save it as CSV UTF-8\)"),
        (b"version https://git-lfs.github.com/spec/v1\n\xff", r"x is a pointer of Git LFS \(run git lfs pull\)"),
        (bytes(range(1, 256)), r"x is a binary file, not a text file\. Pass a text file\.$"),
        (
            b"\xff\xd9\0\x01" * 9,
            r"x is a binary file, not a text file\. Pass a text file\. If it is UTF-16 without a .* --encoding",
        ),
        (gzip.compress(b"\x89PNG\r\n", mtime=0), r"x is a PNG picture, not a text"),
        (b"caf\xe9 \x1b[0m" + b" plain text" * 9, r"x:1 is not UTF-8"),
    ],
)
def test_binary_file_raises_error(content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match=problem):
        read(tmp_path / "x")
    with pytest.raises(FormatError, match=problem):
        list(byte_blocks(tmp_path / "x"))


def test_invalid_paths_raise_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match=r"folder is a folder, not a file\. Pass a file\.$"):
        read(tmp_path / "folder")
    (tmp_path / "folder" / "state.json").write_text("{}")
    with pytest.raises(FormatError, match=r"looks like a Hugging Face datasets folder: pass --input-format datasets"):
        read(tmp_path / "folder")
    with pytest.raises(FormatError, match=r"File not found: .*nothing.txt in the folder .*\. Check the name"):
        read(tmp_path / "folder" / "nothing.txt")
    with pytest.raises(FormatError, match=r"The folder .*gone does not exist either"):
        read(tmp_path / "gone" / "x.txt")
    with pytest.raises(FormatError, match="is not a valid file name"):
        read(Path("a\0b"))
    with pytest.raises(FormatError, match=r"Cannot read .*: File name too long"):
        read(tmp_path / ("x" * 300))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who may be refused")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a")
    (tmp_path / "x").chmod(0)
    with pytest.raises(FormatError, match=r"Cannot read .*x: Permission denied"):
        read(tmp_path / "x")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for n in (1_000, 10_000):
        (tmp_path / "x.gz").write_bytes(gzip.compress((b"some words " * 90 + b"\n") * n, compresslevel=1))
        tracemalloc.start()
        with open_text(tmp_path / "x.gz") as lines:
            assert sum(1 for _ in lines) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 200_000
    assert peaks[1] < 2_000_000


def test_decompress_gives_file_or_temporary_copy(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"plain")
    with decompress(tmp_path / "x") as path:
        assert path == tmp_path / "x"
    (tmp_path / "x").write_bytes(gzip.compress(b"packed"))
    with decompress(tmp_path / "x") as path:
        assert path != tmp_path / "x"
        assert path.read_bytes() == b"packed"
    assert not path.exists()


def test_the_head_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one\r\ntwo\nthree\n")
    assert read_head(path, 100) == (b"one\r\ntwo\nthree\n", ["one", "two", "three"], True)
    assert read_head(path, 11) == (b"one\r\ntwo\nth", ["one", "two"], False)
    assert read_head(path, 2) == (b"on", ["on"], False)
    path.write_bytes(b"one\n\nlast")
    assert read_head(path, 9)[1:] == (["one", "", "last"], True)
    path.write_bytes(b"")
    assert read_head(path, 9) == (b"", [], True)
    path.write_bytes("é".encode())
    assert read_head(path, 1) == (b"\xc3", [], False)  # half a character is not text yet


def test_shortened_text_shows_what_cannot_be_printed() -> None:
    assert shorten("a\x1b[31m\tb\udce9") == repr("a\x1b[31m\tbé")
    assert shorten("x" * 100, 5) == "'xxxxx'…"


# --- encodings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["label\ttext\r\n", "naïve café\n", "a b\n", "price: 5 €\nRésumé\n" * 50])
def test_utf16_without_mark_is_read(encoding: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(text.encode(encoding))
    assert [line for _, line in read(tmp_path / "x")] == lines_of(text)


@pytest.mark.parametrize("content", [b"a\0" * 2, b"plain text\0\n", bytes(300), b"\0\x01" * 90, b"ab\0" * 90])
def test_other_nul_bytes_are_not_utf16(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError):
        read(tmp_path / "x")


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("caf\xe9\nna\xefve\n".encode("cp1252"), "Pass the encoding of the file: --encoding cp1252."),
        ("5 €\n“so”\n".encode("cp1252"), "--encoding cp1252 (0x80 is €, 0x93 is “, 0x94 is ” there)."),
        (b"caf\xe9\n" + b"plain\n" * 9, "It is the only such line: correct it, or pass --encoding cp1252 if the whole"),
        ("schön\n".encode() * 5 + b"sch\xf6n\n", "All other lines are UTF-8, so correct this line."),
        ("schön\n".encode() * 5 + b"sch\xf6n\n" * 2, "so the file mixes encodings: convert the lines of 6, 7."),
        ("привет как дела\n".encode("cp1251") * 3, "such as cp1251 or koi8-r for Cyrillic"),
        (b"a \x81\nb \xe9\n", "Pass the encoding of the file: --encoding latin-1."),
    ],
)
def test_invalid_bytes_name_the_encoding(content: bytes, advice: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError, match=r"x:\d is not UTF-8: byte 0x") as raised:
        read(tmp_path / "x")
    assert advice in str(raised.value)


# --- archives and pipes -------------------------------------------------------------------------------------


def zipped(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_zip_of_one_file_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"inner/Train.CSV": "one\ntwo\n", "__MACOSX/._Train.CSV": "x"})
    assert read(path) == [(1, "one"), (2, "two")]
    assert stored_name(path) == "train.csv"
    with decompress(path) as plain:
        assert plain.read_text() == "one\ntwo\n"


def test_zip_of_several_files_or_none_raises_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"zip archive of 2 files \(a, b\)\. Unpack it and pass one"):
        read(zipped(tmp_path / "x.zip", {"a": "1", "b": "2"}))
    with pytest.raises(FormatError, match="zip archive of 0 files"):
        read(zipped(tmp_path / "x.zip", {".DS_Store": "1"}))


def test_damaged_zip_is_read_or_raises_error(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "x.zip", {"a.txt": "some text\n" * 20}).read_bytes()
    path = tmp_path / "y.zip"
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with contextlib.suppress(FormatError):
            read(path)
        path.write_bytes(whole[:at])
        with contextlib.suppress(FormatError):
            read(path)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("A.CSV", "a.csv"),
        ("a.csv.gz", "a.csv"),
        ("a.tsv.zip", "a.tsv"),
        ("a.jsonl.xz", "a.jsonl"),
        ("a.zip.b", "a.zip.b"),
    ],
)
def test_stored_name_is_without_the_compression(name: str, stored: str, tmp_path: Path) -> None:
    assert stored_name(tmp_path / name) == stored


def test_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.write_bytes, args=(gzip.compress("schön\nplain\n".encode()),))
    thread.start()
    assert read_head(pipe, 100)[1] == ["schön", "plain"]
    assert read(pipe) == [(1, "schön"), (2, "plain")]
    thread.join()


def test_lines_with_nuls_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one\ntw\0o\n")
    with open_text(tmp_path / "x", keep_nuls=True) as lines:
        assert list(lines) == [(1, "one"), (2, "tw\0o")]


def test_byte_order_mark_of_a_joined_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes("a b\n".encode("utf-8-sig") + "\nc\ufeff\n".encode("utf-8-sig"))
    with open_text(path) as lines:
        assert list(lines) == [(1, "a b"), (2, ""), (3, "c\ufeff")]
