"""Text files as blocks of UTF-8 bytes that are never cut inside a word.

Memory does not grow with the file or with the length of its lines. Invalid bytes raise one :class:`FormatError` with
file and line, as in :mod:`catena.data.files`.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

from catena.data.encodings import HEAD, detect_encoding, encoding_advice
from catena.data.files import no_text, open_bytes, reading_errors, shorten
from catena.errors import FormatError

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
