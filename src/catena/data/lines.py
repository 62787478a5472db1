"""Random access to the lines of a large file through an index of line starts, built in one pass.

Large files are shuffled through this index. It is independent of file formats.
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

from catena.data.encodings import HEAD, detect_encoding
from catena.data.files import check_line, decompress, open_text, read_head, reading_errors

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
