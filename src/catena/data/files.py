"""Opening data files, once for all readers: compression, byte-order marks, encodings and line ends.

A reader gets ``(line_number, line)`` pairs and need not know how the file is stored. Whatever is wrong with
the bytes becomes one :class:`FormatError` that names the file, the line and the cure. Memory does not grow
with the file.
"""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from catena.errors import CatenaError, FormatError
from catena.registry import nearest

LINE_END = re.compile(r"\r\n|\n|\r")
"""What ends a line. ``str.splitlines`` would also break at U+2028, form feeds and the like, which occur
inside texts."""

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2"}
BOMS = {
    # UTF-32 comes first: its little-endian mark begins with that of UTF-16.
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_BINARY_MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a RIFF file (sound or video)",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive (unpack it first)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive (unpack it first)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd (unpack it first)",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
    b"fLaC": "a FLAC sound",
    b"OggS": "an Ogg sound",
}
"""What files that hold no text begin with."""
_UNDECODED = re.compile("[\udc80-\udcff]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that texts have almost never, in any encoding of one byte."""
_MOST_CONTROL = 8
"""How many of them a text may have in any case."""


# --- words for errors ---------------------------------------------------------------------------------------


def shorten(text: str, most: int = 80) -> str:
    """The text in quotes with what cannot be printed escaped, cut to about ``most`` characters."""
    # A byte that could not be decoded is shown as \xe9, not as the surrogate that stands for it.
    shown = re.sub("[\udc80-\udcff]", lambda m: chr(ord(m[0]) - 0xDC00), text[:most])
    return repr(shown) + ("…" if len(text) > most else "")


def bad_line(path: Path | str, number: int, line: str, problem: str, cure: str) -> FormatError:
    """The error of a reader: file, line, what is wrong, the line's text, and the cure."""
    return FormatError(f"{path}:{number} {problem}; the line is {shorten(line)}. {cure}".rstrip())


# --- bytes --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_bytes(path: Path | str) -> Iterator[io.BufferedReader]:
    """The bytes of a file, decompressed if its first bytes say gzip, xz or bzip2 (whatever its name says)."""
    path = Path(path)
    with contextlib.ExitStack() as stack:
        with reading_errors(path):
            raw = stack.enter_context(_open(path))
            kind = compression(raw.peek(10)[:10])
            stream: io.BufferedIOBase = raw
            if kind == "gzip":
                stream = stack.enter_context(gzip.GzipFile(fileobj=raw))
            elif kind == "xz":
                stream = stack.enter_context(lzma.LZMAFile(raw))
            elif kind == "bzip2":
                stream = stack.enter_context(bz2.BZ2File(raw))
            if stream is not raw:
                raw = cast(io.BufferedReader, io.BufferedReader(cast(io.RawIOBase, stream), 1 << 16))
        yield raw


def compression(first_bytes: bytes) -> str | None:
    """The name of the compression that the first ten bytes of a file show."""
    for magic, name in _COMPRESSIONS.items():
        if first_bytes.startswith(magic) and (name != "bzip2" or first_bytes[4:10] == b"1AY&SY"):
            return name
    return None


def binary_kind(first_bytes: bytes) -> str | None:
    """What the first bytes of a file show it to be, if that is no text."""
    return next((name for magic, name in _BINARY_MAGIC.items() if first_bytes.startswith(magic)), None)


@contextlib.contextmanager
def reading_errors(path: Path | str) -> Iterator[None]:
    """Turn what reading a stream may raise into one :class:`FormatError`."""
    try:
        yield
    except EOFError:
        raise FormatError(f"{path} ends in the middle of its compressed data: copy or download it again") from None
    except (zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise FormatError(f"{path} is damaged and cannot be unpacked ({error}): copy or download it again") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None


def _open(path: Path) -> io.BufferedReader:
    try:
        if path.is_dir():
            raise FormatError(f"{path} is a folder, not a file{_suggestion_inside(path)}")
        return io.BufferedReader(io.FileIO(path), 1 << 16)
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}{_suggestion_beside(path)}") from None
    except CatenaError:
        raise
    except ValueError as error:  # a NUL in the name
        raise FormatError(f"{str(path)!r} cannot be the name of a file: {error}") from None


def _suggestion_inside(folder: Path) -> str:
    if is_datasets_folder(folder):
        return ": it looks like a Hugging Face datasets folder, which format 'datasets' reads"
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        if names:
            return f": name a file in it, such as {folder / names[0]}"
    return ": name a file"


def _suggestion_beside(path: Path) -> str:
    with contextlib.suppress(OSError):
        close = nearest(path.name, os.listdir(path.parent))
        if close:
            return f": did you mean {path.parent / close[0]}?"
        return f" in the folder {path.parent.resolve()}: check the name"
    return f": there is no folder {path.parent} either"


def is_datasets_folder(folder: Path) -> bool:
    """Whether a folder was written by ``save_to_disk`` of Hugging Face ``datasets``."""
    return any((folder / name).is_file() for name in ("state.json", "dataset_dict.json", "dataset_info.json"))


@contextlib.contextmanager
def decompress(path: Path | str) -> Iterator[Path]:
    """A path to the uncompressed bytes: the file itself, or a temporary copy that is removed afterwards."""
    path = Path(path)
    with open_bytes(path) as stream:
        if not isinstance(getattr(stream, "raw", None), io.FileIO):
            with tempfile.TemporaryDirectory(prefix="catena-") as folder:
                copy = Path(folder) / "unpacked"
                with reading_errors(path), open(copy, "wb") as target:
                    shutil.copyfileobj(stream, target, 1 << 20)
                yield copy
            return
    yield path


# --- text ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_text(path: Path | str, encoding: str | None = None) -> Iterator[Iterator[tuple[int, str]]]:
    """A stream of ``(line_number, line)`` from 1, without line ends.

    Gzip, xz and bzip2 are recognized by content. Without ``encoding`` the text is UTF-8, or what its
    byte-order mark says; the mark itself is taken off. Lines end at LF, CRLF or CR and nowhere else. Bytes
    that are not in the encoding and NUL bytes raise :class:`FormatError` at their line; the lines before it
    are yielded.
    """
    with open_bytes(path) as stream:
        yield _checked(path, _decoded(path, stream, encoding), encoding)


@contextlib.contextmanager
def open_damaged_text(path: Path | str, encoding: str | None = None) -> Iterator[Iterator[tuple[int, str]]]:
    """As :func:`open_text`, but a byte ``b`` that cannot be decoded becomes the character ``U+DC00 + b``."""
    with open_bytes(path) as stream:
        yield _decoded(path, stream, encoding)


def detect_encoding(path: Path | str, first_bytes: bytes, encoding: str | None) -> str:
    """The encoding to decode with, from what was asked for and the byte-order mark, which must agree."""
    marked = next((name for bom, name in BOMS.items() if first_bytes.startswith(bom)), None)
    if encoding is None:
        return marked or "utf-8"
    try:
        asked = codecs.lookup(encoding).name
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # refuses codecs such as base64, which give no text
    except (LookupError, ValueError):
        raise FormatError(
            f"there is no text encoding {encoding!r}, asked for to read {path}: known are utf-8, utf-16, latin-1, "
            "cp1252, gb18030, shift_jis and the others that Python knows"
        ) from None
    if marked is None:
        return asked
    family = marked.removesuffix("-sig")
    if not asked.startswith(family):
        raise FormatError(
            f"{path} begins with the byte-order mark of {family}, but the encoding {encoding!r} was asked for: "
            "leave the encoding out"
        )
    return marked


def _decoded(path: Path | str, stream: io.BufferedReader, encoding: str | None) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with reading_errors(path):
            name = detect_encoding(path, stream.peek(4)[:4], encoding)
            # newline=None: LF, CRLF and CR end a line, each given as "\n", and no other character does.
            text = io.TextIOWrapper(stream, encoding=name, errors="surrogateescape", newline=None)
            try:
                for number, line in enumerate(text, start=1):
                    yield number, line.removesuffix("\n")
            finally:
                with contextlib.suppress(ValueError):  # the stream is closed already
                    text.detach()
    except UnicodeError as error:
        raise FormatError(
            f"{path} is not {name}: {error} after line {number}. Give the encoding it was written in, "
            "such as --encoding utf-8"
        ) from None


def _checked(path: Path | str, lines: Iterator[tuple[int, str]], encoding: str | None) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        check_line(path, number, line, encoding)
        yield number, line


def check_line(path: Path | str, number: int, line: str, encoding: str | None) -> None:
    """Raise :class:`FormatError` if a line holds a NUL or a byte that could not be decoded (``U+DC00 + byte``)."""
    # isascii() is a flag of the string, so the search runs over other lines only.
    if not line.isascii() and (bad := _UNDECODED.search(line)):
        raise no_text(path) or _not_decoded(path, number, line, bad.start(), encoding)
    if "\0" in line:
        raise no_text(path, by_name=True) or _nul(path, number, line)


def no_text(path: Path | str, by_name: bool = False) -> FormatError | None:
    """That a file with bytes that cannot be decoded is no text in any encoding, where its beginning shows it:
    ``by_name`` by the mark of a kind of file alone, otherwise also by bytes that no text has."""
    if not Path(path).is_file():  # a pipe can be read once
        return None
    with open_bytes(path) as stream, reading_errors(path):
        head = stream.read(1 << 12)
    if kind := binary_kind(head):
        return FormatError(f"{path} is {kind}, not a text: name a file of text")
    if by_name or len(_CONTROL.findall(head)) <= max(_MOST_CONTROL, 0.02 * len(head)):
        return None
    wide = ", or UTF-16 without a byte-order mark (--encoding utf-16-le)" if b"\0" in head else ""
    return FormatError(f"{path} is a binary file, not a text{wide}: name a file of text")


def _not_decoded(path: Path | str, number: int, line: str, at: int, encoding: str | None) -> FormatError:
    byte = ord(line[at]) - 0xDC00
    cure = "latin-1" if encoding is None or codecs.lookup(encoding).name == "utf-8" else "utf-8"
    return FormatError(
        f"{path}:{number} is not {encoding or 'UTF-8'}: byte 0x{byte:02x} at character {at + 1}, "
        f"near {shorten(line[max(0, at - 30) : at + 30])}. Give the encoding the file was written in, "
        f"such as --encoding {cure}"
    )


def _nul(path: Path | str, number: int, line: str) -> FormatError:
    at = line.index("\0")
    return FormatError(
        f"{path}:{number} has a NUL byte at character {at + 1}, "
        f"near {shorten(line[max(0, at - 30) : at + 30])}: "
        "this is no text file, or UTF-16 without a byte-order mark (--encoding utf-16-le)"
    )


# --- samples ------------------------------------------------------------------------------------------------


def read_head(path: Path | str, most: int, encoding: str | None = None) -> tuple[bytes, list[str], bool]:
    """The first ``most`` bytes (decompressed), their whole lines, and whether that is all of the file.

    Bytes that cannot be decoded become ``U+DC00 + byte``, as in :func:`open_damaged_text`. A first line
    longer than ``most`` bytes is cut.
    """
    with open_bytes(path) as stream, reading_errors(path):
        head = stream.read(most + 1)
    whole = len(head) <= most
    head = head[:most]
    try:
        name = detect_encoding(path, head[:4], encoding)
        text = codecs.getincrementaldecoder(name)("surrogateescape").decode(head, final=whole)
    except (UnicodeError, LookupError):
        text = head.decode("latin-1")
    lines = LINE_END.split(text)
    if len(lines) > 1 and (not whole or not lines[-1]):
        lines.pop()  # cut in the middle, or nothing after the last line end
    return head, (lines if text else []), whole
