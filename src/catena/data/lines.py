"""Large text files: random access to their lines, and blocks of bytes that are never cut inside a word.

Random access uses an index of line starts, built in one pass, through which large files are shuffled. It is independent
of file formats. Blocks need memory neither for the file nor for its longest line.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import mmap
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Int64

from catena.data.encodings import HEAD, detect_encoding, encoding_advice
from catena.data.files import check_line, decompress, no_text, open_bytes, open_text, read_head, reading_errors, shorten
from catena.errors import FormatError

CHUNK_BYTES = 1 << 20
LF, CR = 10, 13
_BYTEWISE = ("utf-8", "ascii", "iso8859", "cp125", "koi8", "mac-")
"""Prefixes of encodings in which LF and CR are single bytes that are never part of another character."""


class LineIndex:
    """The lines of a file by number, from 0. Reads the file once and stores eight bytes per line on disk.

    Lines are as in :func:`catena.data.files.open_text`. A compressed file is decompressed to a temporary file,
    which is removed when the index is closed: use it in a ``with`` statement. The file must not change meanwhile.
    """

    def __init__(self, path: Path | str, encoding: str | None = None) -> None:
        self.path = Path(path)
        self._asked = encoding
        self._stack = contextlib.ExitStack()
        try:
            with reading_errors(self.path):
                self._open(encoding)
        except BaseException:
            self.close()
            raise

    def _open(self, encoding: str | None) -> None:
        head, _, _ = read_head(self.path, HEAD, encoding)
        name = detect_encoding(self.path, head, encoding)
        if name.startswith(_BYTEWISE):
            plain = self._stack.enter_context(decompress(self.path))
        else:
            plain, name = self._rewritten(encoding), "utf-8"
        self._encoding = name.removesuffix("-sig")
        stream = self._stack.enter_context(open(plain, "rb"))  # noqa: SIM115
        begin = len(codecs.BOM_UTF8) if name == "utf-8-sig" else 0
        self._starts = self._find_starts(stream, begin)
        self._bytes: mmap.mmap | None = None
        if len(self):
            self._bytes = self._stack.enter_context(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))

    def _rewritten(self, encoding: str | None) -> Path:
        """A temporary copy in UTF-8, for encodings in which line ends are not single bytes."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="catena-"))
        copy = Path(folder) / "rewritten"
        with (
            open_text(self.path, encoding) as lines,
            open(copy, "w", encoding="utf-8", newline="\n") as stream,
        ):
            stream.writelines(line + "\n" for _, line in lines)
        return copy

    def _find_starts(self, stream: io.BufferedReader, begin: int) -> Int64[np.ndarray, "n"]:
        """``starts[i]`` is the offset of line ``i``. The entry after the last line is the size of the file."""
        offsets = self._stack.enter_context(tempfile.TemporaryFile(prefix="catena-"))  # noqa: SIM115
        offsets.write(np.array([begin], dtype=np.int64).tobytes())
        for found in _after_line_ends(stream, begin):
            offsets.write(found.tobytes())
        offsets.flush()
        return np.memmap(offsets, dtype=np.int64, mode="r")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, i: int) -> str:
        """Line ``i``, counted from 0, without its line end."""
        if not -len(self) <= i < len(self):
            raise IndexError(
                f"The line index must be below {len(self):,} for {self.path}, got {i}. Use a smaller index."
            )
        i %= len(self)
        assert self._bytes is not None
        raw = self._bytes[int(self._starts[i]) : int(self._starts[i + 1])]
        raw = raw.removesuffix(b"\n").removesuffix(b"\r") if raw.endswith(b"\n") else raw.removesuffix(b"\r")
        line = raw.decode(self._encoding, "surrogateescape")
        check_line(self.path, i + 1, line, self._asked)
        return line

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def shuffled(self, generator: np.random.Generator) -> Iterator[tuple[int, str]]:
        """Every line once in random order, as ``(line_number, line)`` with numbers from 1."""
        for i in generator.permutation(len(self)):
            yield int(i) + 1, self[int(i)]

    def close(self) -> None:
        """Close the files and remove the temporary ones."""
        self._stack.close()

    def __enter__(self) -> LineIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _after_line_ends(stream: io.BufferedReader, begin: int) -> Iterator[Int64[np.ndarray, "n"]]:
    """The offsets after each line end (LF, CRLF or CR), and the end of the file if its last line has none."""
    stream.seek(begin)
    offset = last = begin
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
