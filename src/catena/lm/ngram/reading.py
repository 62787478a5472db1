"""Text files in pieces of whole lines, as validated UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from catena.data.files import HEAD, detect_encoding, open_bytes, open_text, reading_errors
from catena.errors import DataError
from catena.lm.ngram.lexicon import Bytes, encode_utf8

_PIECE = 1 << 20
"""The number of bytes to read at a time."""

ProgressFn = Callable[[str, float], None]
"""Called with a description of the current work and the fraction done: ("reading", 0.25)."""

TextSource = Path | str | Iterable[str]
"""A file, or the sentences themselves."""


def pieces(sources: Iterable[Path], progress: ProgressFn | None = None, what: str = "reading") -> Iterator[Bytes]:
    """The lines of files, many at a time, as UTF-8; other encodings are detected by their byte order marks."""
    paths = list(sources)
    total = sum(path.stat().st_size for path in paths if path.is_file()) or 1
    done = 0
    for path in paths:
        for piece in _file(path):
            done += len(piece)
            yield piece
            if progress:  # a compressed file has more bytes than its size
                progress(what, min(done / total, 1.0))


def _file(path: Path) -> Iterator[Bytes]:
    with open_bytes(path) as stream:
        if detect_encoding(path, stream.peek(HEAD)[:HEAD], None) != "utf-8":
            yield from _decoded(path)
            return
        rest, read = b"", b" "
        while read:
            with reading_errors(path):
                read = stream.read(_PIECE)
            cut = read.rfind(b"\n") + 1 if read else 0
            if read and not cut:
                rest += read
                continue
            piece, rest = rest + read[:cut], read[cut:]
            if not _is_text(piece):
                _refuse(path)
            if piece:
                yield np.frombuffer(piece, np.uint8)


def _is_text(piece: bytes) -> bool:
    if b"\0" in piece:
        return False
    try:
        return piece.isascii() or bool(piece.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _refuse(path: Path) -> None:
    """Read the file line by line, which raises an error at the invalid line."""
    with open_text(path) as lines:
        for _ in lines:
            pass


def _decoded(path: Path) -> Iterator[Bytes]:
    with open_text(path) as lines:
        gathered: list[str] = []
        size = 0
        for _, line in lines:
            gathered.append(line)
            size += len(line)
            if size > _PIECE:
                yield encode_utf8("\n".join(gathered) + "\n")
                gathered, size = [], 0
        if gathered:
            yield encode_utf8("\n".join(gathered) + "\n")


def join_lines(sentences: Iterable[Any]) -> Bytes:
    """Sentences, which must be strings, as lines. Line ends inside a sentence are whitespace."""
    if isinstance(sentences, str):
        raise DataError(f"sentences must be a list of strings, got one string. Pass [{shorten(sentences)}].")
    listed = list(sentences)
    # One by one: a single non-Latin letter would make each letter of a joined string two or four bytes wide.
    try:
        raw = b"\n".join([*map(str.encode, listed), b""])
    except UnicodeEncodeError:  # a lone surrogate
        raw = b"\n".join([*[sentence.encode("utf-8", "surrogatepass") for sentence in listed], b""])
    except TypeError:
        raise _no_string(listed) from None
    data = np.frombuffer(raw, np.uint8)
    if b"\r" in raw or np.count_nonzero(data == 10) != len(listed):
        return encode_utf8("".join(sentence.replace("\n", " ").replace("\r", " ") + "\n" for sentence in listed))
    return data


def _no_string(sentences: list[Any]) -> DataError:
    i, other = next((i, item) for i, item in enumerate(sentences) if not isinstance(item, str))
    return DataError(
        f"sentences must be strings with tokens separated by blanks, got {shorten(other)}, a {type(other).__name__}, "
        f"as sentence {i + 1}. Join its tokens by blanks, or pass ids to train_ids and token_log_probs."
    )


def shorten(value: object) -> str:
    """The repr of a value for an error, with the middle of a long one left out."""
    written = repr(value)
    return written if len(written) < 60 else written[:56] + " …" + written[-1]
