"""Opening data files for all readers: pipes, compression, archives of one file, encodings and line ends.

A reader gets ``(line_number, line)`` pairs and does not depend on how the file is stored. Invalid bytes raise one
:class:`FormatError` with the file, the line and the cure. Memory does not grow with the file.
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
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import cast

from catena.data.encodings import UNDECODED, encoding_advice
from catena.errors import CatenaError, FormatError
from catena.files import local_copy
from catena.registry import nearest

LINE_END = re.compile(r"\r\n|\n|\r")
"""Line ends. ``str.splitlines`` would also split at U+2028, form feeds and others, which occur inside texts."""

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip"}
_BINARY_MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a RIFF file (sound or video)",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "an empty zip archive",
    b"\xd0\xcf\x11\xe0": "an old Office document such as .xls (save it as CSV UTF-8)",
    b"{\\rtf": "a document in Rich Text Format (save it as plain text)",
    b"version https://git-lfs.github.com/spec/": "a pointer of Git LFS (run git lfs pull)",
    b"\x93NUMPY": "an array of NumPy",
    b"FEA1": "a Feather file of version 1 (save it as Parquet)",
    b"Obj\x01": "an Avro file (save it as Parquet)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive (unpack it first)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd (unpack it first)",
    b"SQLite format 3": "an SQLite database",
    b"\x7fELF": "a program",
    b"fLaC": "a FLAC sound",
    b"OggS": "an Ogg sound",
}
"""First bytes of files that are not text."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Bytes that almost never occur in texts, in any single-byte encoding."""
_MOST_CONTROL = 8
"""How many of them are always allowed."""


# --- error texts --------------------------------------------------------------------------------------------


def shorten(text: str, most: int = 80) -> str:
    """The quoted text with unprintable characters escaped, truncated to about ``most`` characters."""
    # A byte that could not be decoded is shown as \xe9, not as its surrogate.
    shown = re.sub("[\udc80-\udcff]", lambda m: chr(ord(m[0]) - 0xDC00), text[:most])
    return repr(shown) + ("…" if len(text) > most else "")


def bad_line(path: Path | str, number: int, line: str, problem: str, cure: str) -> FormatError:
    """The error of a reader with file, line, problem, text of the line, and cure."""
    return FormatError(f"{path}:{number} {problem}; the line is {shorten(line)}. {cure}".rstrip())


# --- bytes --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_bytes(path: Path | str) -> Iterator[io.BufferedReader]:
    """The bytes of a file, decompressed if its content (not its name) is gzip, xz, bzip2 or a zip of one file."""
    path = Path(path)
    with contextlib.ExitStack() as stack:
        with reading_errors(path):
            raw = stack.enter_context(_open(path))
            stream = _decompressed(path, raw, stack)
            if stream is not raw:
                raw = cast(io.BufferedReader, io.BufferedReader(cast(io.RawIOBase, stream), 1 << 16))
        yield raw


def _decompressed(path: Path, raw: io.BufferedReader, stack: contextlib.ExitStack) -> io.BufferedIOBase:
    kind = compression(raw.peek(10)[:10])
    if kind == "gzip":
        return stack.enter_context(gzip.GzipFile(fileobj=raw))
    if kind == "xz":
        return stack.enter_context(lzma.LZMAFile(raw))
    if kind == "bzip2":
        return stack.enter_context(bz2.BZ2File(raw))
    if kind == "zip" and (name := _only_file(path, raw)) is not None:
        archive = stack.enter_context(zipfile.ZipFile(raw))
        return cast(io.BufferedIOBase, stack.enter_context(archive.open(name)))
    return raw


def _only_file(path: Path, raw: io.BufferedReader) -> str | None:
    """The name of the one file of a zip archive, or None for an office document, which is a zip archive too."""
    try:
        with zipfile.ZipFile(raw) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    finally:
        raw.seek(0)
    if "[Content_Types].xml" in names or "mimetype" in names:
        return None
    names = [name for name in names if not name.startswith("__MACOSX/") and Path(name).name != ".DS_Store"]
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    raise FormatError(f"{path} is a zip archive of {len(names)} files ({shown}). Unpack it and pass one of them.")


def stored_name(path: Path | str) -> str:
    """The name of the data in lower case, without the ending of a compression; of a zip archive, of its file."""
    path = Path(path)
    name = path.name.lower()
    with contextlib.suppress(CatenaError, OSError, zipfile.BadZipFile), _open(path) as raw:
        if compression(raw.peek(10)[:10]) == "zip":
            name = Path(_only_file(path, raw) or name).name.lower()
    return re.sub(r"\.(gz|xz|bz2|zip|bz|lzma)$", "", name)


def compression(first_bytes: bytes) -> str | None:
    """The compression format, from the first ten bytes of a file."""
    for magic, name in _COMPRESSIONS.items():
        if first_bytes.startswith(magic) and (name != "bzip2" or first_bytes[4:10] == b"1AY&SY"):
            return name
    return None


def binary_kind(first_bytes: bytes) -> str | None:
    """The type of a binary file, from its first bytes, or None."""
    return next((name for magic, name in _BINARY_MAGIC.items() if first_bytes.startswith(magic)), None)


@contextlib.contextmanager
def reading_errors(path: Path | str) -> Iterator[None]:
    """Context that turns errors of reading a stream into a :class:`FormatError`."""
    try:
        yield
    except EOFError:
        raise FormatError(f"The compressed data of {path} is truncated. Copy or download it again.") from None
    except (zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError) as error:
        raise FormatError(
            f"{path} is damaged and cannot be decompressed ({error}). Copy or download it again."
        ) from None
    except OSError as error:
        raise FormatError(f"Cannot read {path}: {error.strerror or error}. Check its permissions.") from None
    except RuntimeError as error:  # of zipfile
        if "password" not in str(error):
            raise
        raise FormatError(f"{path} is an encrypted zip archive. Unpack it first.") from None


def _open(path: Path) -> io.BufferedReader:
    try:
        if path.is_dir():
            raise FormatError(f"{path} is a folder, not a file.{_suggestion_inside(path)}")
        return io.BufferedReader(io.FileIO(local_copy(path)), 1 << 16)
    except FileNotFoundError:
        raise FormatError(f"File not found: {path}{_suggestion_beside(path)}") from None
    except CatenaError:
        raise
    except ValueError as error:  # a NUL in the name
        raise FormatError(f"{str(path)!r} is not a valid file name: {error}. Check the path.") from None


def _suggestion_inside(folder: Path) -> str:
    if is_datasets_folder(folder):
        return " It looks like a Hugging Face datasets folder: pass --input-format datasets."
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        if names:
            return f" Pass a file in it, such as {folder / names[0]}."
    return " Pass a file."


def _suggestion_beside(path: Path) -> str:
    with contextlib.suppress(OSError):
        close = nearest(path.name, os.listdir(path.parent))
        if close:
            return f". Did you mean {path.parent / close[0]}?"
        return f" in the folder {path.parent.resolve()}. Check the name."
    return f". The folder {path.parent} does not exist either. Check the path."


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
    yield local_copy(path)


# --- text ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_text(
    path: Path | str, encoding: str | None = None, *, keep_nuls: bool = False
) -> Iterator[Iterator[tuple[int, str]]]:
    """A stream of ``(line_number, line)`` pairs, numbered from 1, without line ends.

    Compression is detected by content. Without ``encoding``, the text is UTF-8, UTF-16 or the encoding of its
    byte-order mark, which is removed. Lines end only at LF, CRLF or CR.

    Args:
        path: the file.
        encoding: the encoding that the user sets.
        keep_nuls: yield lines with NUL bytes, so that the caller can drop them. Otherwise they raise an error.

    Raises:
        FormatError: at a line with bytes that are not in the encoding or with NUL bytes, after all lines before it
            were yielded.
    """
    with open_bytes(path) as stream:
        yield _checked(path, _decoded(path, stream, encoding), encoding, keep_nuls)


@contextlib.contextmanager
def open_damaged_text(path: Path | str, encoding: str | None = None) -> Iterator[Iterator[tuple[int, str]]]:
    """As :func:`open_text`, but a byte ``b`` that cannot be decoded becomes the character ``U+DC00 + b``."""
    with open_bytes(path) as stream:
        yield _decoded(path, stream, encoding)


def _decoded(path: Path | str, stream: io.BufferedReader, encoding: str | None) -> Iterator[tuple[int, str]]:
    number = 0
    try:
        with reading_errors(path):
            name = detect_encoding(path, stream.peek(HEAD)[:HEAD], encoding)
            # newline=None: LF, CRLF and CR end a line and become "\n"; no other character ends a line.
            text = io.TextIOWrapper(stream, encoding=name, errors="surrogateescape", newline=None)
            try:
                for number, line in enumerate(text, start=1):
                    yield number, line.removesuffix("\n").removeprefix("\ufeff")  # also where files are joined
            finally:
                with contextlib.suppress(ValueError):  # the stream is closed already
                    text.detach()
    except UnicodeError as error:
        raise FormatError(
            f"{path} is not {name}: {error} after line {number}. Pass the encoding of the file, "
            "such as --encoding utf-8."
        ) from None


def _checked(
    path: Path | str, lines: Iterator[tuple[int, str]], encoding: str | None, keep_nuls: bool
) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        check_line(path, number, line, encoding, keep_nuls)
        yield number, line


def check_line(path: Path | str, number: int, line: str, encoding: str | None, keep_nuls: bool = False) -> None:
    """Raise :class:`FormatError` if a line has a NUL or a byte that could not be decoded (``U+DC00 + byte``)."""
    # isascii() is a flag of the string, so only other lines are searched.
    if not line.isascii() and (bad := UNDECODED.search(line)):
        raise no_text(path) or _not_decoded(path, number, line, bad.start(), encoding)
    if "\0" in line and not keep_nuls:
        raise no_text(path, by_name=True) or _nul(path, number, line)


def no_text(path: Path | str, by_name: bool = False) -> FormatError | None:
    """An error if the beginning of an undecodable file shows that it is binary, otherwise None.

    With ``by_name``, only the signature of a file type counts; otherwise also bytes that texts do not contain.
    """
    with open_bytes(path) as stream, reading_errors(path):
        head = stream.read(1 << 12)
    if kind := binary_kind(head):
        return FormatError(f"{path} is {kind}, not a text file. Pass a text file.")
    if by_name or len(_CONTROL.findall(head)) <= max(_MOST_CONTROL, 0.02 * len(head)):
        return None
    wide = " If it is UTF-16 without a byte-order mark, pass --encoding utf-16-le or utf-16-be." * (b"\0" in head)
    return FormatError(f"{path} is a binary file, not a text file. Pass a text file.{wide}")


def _not_decoded(path: Path | str, number: int, line: str, at: int, encoding: str | None) -> FormatError:
    byte = ord(line[at]) - 0xDC00
    with open_bytes(path) as stream, reading_errors(path):
        advice = encoding_advice(stream, encoding)
    return FormatError(
        f"{path}:{number} is not {encoding or 'UTF-8'}: byte 0x{byte:02x} at character {at + 1}, "
        f"near {shorten(line[max(0, at - 30) : at + 30])}. {advice}"
    )


def _nul(path: Path | str, number: int, line: str) -> FormatError:
    at = line.index("\0")
    return FormatError(
        f"{path}:{number} has a NUL byte at character {at + 1}, "
        f"near {shorten(line[max(0, at - 30) : at + 30])}. Remove the byte, or pass a text file."
    )


def split_blocks(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """The lines between blank lines."""
    for is_filled, block in groupby(lines, key=lambda line: bool(line[1].strip())):
        if is_filled:
            yield list(block)


# --- samples ------------------------------------------------------------------------------------------------


def read_head(path: Path | str, most: int, encoding: str | None = None) -> tuple[bytes, list[str], bool]:
    """The first ``most`` bytes (decompressed), their complete lines, and whether that is the whole file.

    Bytes that cannot be decoded become ``U+DC00 + byte``, as in :func:`open_damaged_text`. A first line
    longer than ``most`` bytes is truncated.
    """
    with open_bytes(path) as stream, reading_errors(path):
        head = stream.read(most + 1)
    whole = len(head) <= most
    head = head[:most]
    try:
        name = detect_encoding(path, head[:HEAD], encoding)
        text = codecs.getincrementaldecoder(name)("surrogateescape").decode(head, final=whole)
    except (UnicodeError, LookupError):
        text = head.decode("latin-1")
    lines = LINE_END.split(text)
    if len(lines) > 1 and (not whole or not lines[-1]):
        lines.pop()  # incomplete, or empty after the last line end
    return head, (lines if text else []), whole


# --- encodings ----------------------------------------------------------------------------------------------

BOMS = {
    # UTF-32 comes first because its little-endian mark begins with the mark of UTF-16.
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
HEAD = 512
"""Number of first bytes that :func:`detect_encoding` needs."""
_LATIN_TEXT = frozenset((*b"\t\n\r", *range(0x20, 0x7F), *range(0xA0, 0x100)))


def detect_encoding(path: Path | str, head: bytes, encoding: str | None) -> str:
    """The encoding to decode with.

    Args:
        path: the file, for errors.
        head: its first bytes, at least four; with :data:`HEAD` bytes, UTF-16 without a mark is detected.
        encoding: the encoding that the user sets, which must agree with a byte-order mark.
    """
    marked = next((name for bom, name in BOMS.items() if head.startswith(bom)), None)
    if encoding is None:
        return marked or utf16_without_mark(head) or "utf-8"
    try:
        name = codecs.lookup(encoding).name
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # rejects codecs such as base64 that are not for text
    except (LookupError, ValueError):
        raise FormatError(
            f"Unknown encoding {encoding!r} for {path}. Use utf-8, utf-16, latin-1, cp1252, gb18030, shift_jis or "
            f"another encoding of Python."
        ) from None
    if marked is None:
        return name
    family = marked.removesuffix("-sig")
    if not name.startswith(family):
        raise FormatError(
            f"The encoding of {path} must be {family} because of its byte-order mark, got {encoding!r}. "
            "Remove the encoding option."
        )
    return marked


def utf16_without_mark(head: bytes) -> str | None:
    """``utf-16-le`` or ``utf-16-be`` if every other byte is NUL, as in UTF-16 of Latin letters, otherwise None."""
    head = head[: HEAD - HEAD % 2]
    pairs = len(head) // 2
    even, odd = head[0 : 2 * pairs : 2], head[1 : 2 * pairs : 2]
    for name, low, high in (("utf-16-le", even, odd), ("utf-16-be", odd, even)):
        latin = sum(byte in _LATIN_TEXT for byte, other in zip(low, high, strict=True) if other == 0)
        others = high.count(0) - latin + low.count(0)
        if pairs >= 4 and latin >= 0.5 * pairs and others <= 0.02 * pairs:
            return name
    return None
