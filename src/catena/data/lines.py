"""Large text files: random access to their lines, and blocks of bytes that never cut a word.

Random access uses an index of line starts, built in one pass. It is independent of file formats. Blocks need memory
neither for the file nor for its longest line.
"""

from __future__ import annotations

import codecs
import io
import mmap
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from jaxtyping import Int64

from catena.data.encodings import encoding_advice
from catena.data.files import HEAD, check_line, detect_encoding, no_text, open_bytes, reading_errors, shorten
from catena.errors import FormatError

CHUNK_BYTES = 1 << 20
LF, CR = 10, 13


class LineIndex(Sequence[str]):
    """The lines of a file in UTF-8 by number, from 0. Reads the file once and stores eight bytes per line on disk.

    Lines are as in :func:`catena.data.files.open_text`. The file must not change meanwhile.

    Args:
        path: the file, not compressed.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with reading_errors(self.path), open_bytes(self.path) as stream:
            self._starts = _find_starts(stream)
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if len(self) else None

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        """Line ``i``, counted from 0, without its line end."""
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(
                f"The line index must be below {len(self):,} for {self.path}, got {i}. Use a smaller index."
            )
        i %= len(self)
        assert self._bytes is not None
        raw = self._bytes[int(self._starts[i]) : int(self._starts[i + 1])]
        raw = raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw.removesuffix(b"\r")
        line = raw.decode("utf-8", "surrogateescape")
        check_line(self.path, i + 1, line, None)
        return line


def _find_starts(stream: io.BufferedReader) -> Int64[np.ndarray, "n"]:
    """``starts[i]`` is the offset of line ``i``. The entry after the last line is the size of the file."""
    offsets = tempfile.TemporaryFile(prefix="catena-")  # noqa: SIM115 (lives as long as the array)
    offsets.write(np.zeros(1, np.int64).tobytes())
    for found in _after_line_ends(stream):
        offsets.write(found.tobytes())
    offsets.flush()
    return np.memmap(offsets, dtype=np.int64, mode="r")


def _after_line_ends(stream: io.BufferedReader) -> Iterator[Int64[np.ndarray, "n"]]:
    """The offsets after each line end (LF, CRLF or CR), and the end of the file if its last line has none."""
    offset = last = 0
    ends_in_cr = False
    while chunk := stream.read(CHUNK_BYTES):
        byte = np.frombuffer(chunk, dtype=np.uint8)
        is_end = (byte == LF) | (byte == CR)
        is_end[:-1] &= ~((byte[:-1] == CR) & (byte[1:] == LF))
        if ends_in_cr and byte[0] != LF:
            yield np.array([offset], dtype=np.int64)
        ends_in_cr = bool(byte[-1] == CR)
        is_end[-1] &= not ends_in_cr  # the next chunk may begin with the LF
        found = np.flatnonzero(is_end).astype(np.int64) + offset + 1
        last = int(found[-1]) if len(found) else last
        offset += len(chunk)
        yield found
    if offset > last:
        yield np.array([offset], dtype=np.int64)


# --- blocks of bytes --------------------------------------------------------------------------------------------------


BLOCK = 1 << 20


def byte_blocks(path: Path | str, encoding: str | None = None, size: int = BLOCK) -> Iterator[bytes]:
    """The text of a file in UTF-8, in blocks that end after a line or a blank. Compressed files are decompressed.

    A byte-order mark is removed. Bytes that are not in the encoding, and NUL bytes, raise :class:`FormatError`.
    """
    with open_bytes(path) as stream:
        with reading_errors(path):
            name = detect_encoding(path, stream.peek(HEAD)[:HEAD], encoding)
        if name == "utf-8-sig":
            stream.read(len(codecs.BOM_UTF8))
        as_it_is = name in ("utf-8", "utf-8-sig")
        blocks = _read(path, stream, size) if as_it_is else _decoded(path, stream, name, size)
        lines = 0
        for block in _cut_at_blanks(blocks):
            _check(path, block, lines)
            lines += block.count(b"\n")
            yield block


def _read(path: Path | str, stream: io.BufferedReader, size: int) -> Iterator[bytes]:
    with reading_errors(path):
        while block := stream.read(size):
            yield block


def _decoded(path: Path | str, stream: io.BufferedReader, encoding: str, size: int) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for block in _read(path, stream, size):
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise FormatError(
            f"{path} is not {encoding}: {error}. Pass the encoding of the file, such as --encoding utf-8."
        ) from None


def _cut_at_blanks(blocks: Iterator[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    for block in blocks:
        end = block.rfind(b"\n") + 1 or max(block.rfind(b" "), block.rfind(b"\t")) + 1
        if end:
            yield b"".join((*begun, block[:end]))
            begun = []
        begun.append(block[end:])
    if rest := b"".join(begun):
        yield rest


def _check(path: Path | str, block: bytes, lines: int) -> None:
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError as error:
            number = lines + block.count(b"\n", 0, error.start) + 1
            near = block[max(0, error.start - 30) : error.start + 30].decode("utf-8", "surrogateescape")
            raise no_text(path) or _not_utf8(path, number, block[error.start], near) from None
    if (at := block.find(b"\0")) >= 0:
        number = lines + block.count(b"\n", 0, at) + 1
        raise no_text(path, by_name=True) or FormatError(
            f"{path}:{number} has a NUL byte. Remove the byte, or pass a text file."
        )


def _not_utf8(path: Path | str, number: int, byte: int, near: str) -> FormatError:
    with open_bytes(path) as stream, reading_errors(path):
        advice = encoding_advice(stream, None)
    return FormatError(f"{path}:{number} is not UTF-8: byte 0x{byte:02x}, near {shorten(near)}. {advice}")
