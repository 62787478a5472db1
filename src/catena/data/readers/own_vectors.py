"""Catena's own format of word vectors: memory-mapped safetensors, which opens at once, and writing.

    vectors  float32 (v, d)     words   the UTF-8 bytes of all words without gaps
    buckets  float32 (n, d)     ends    the end of each word in them      counts   the count of each word

``buckets`` are rows of character n-grams, if any. The metadata has their lengths.

Tested in tests/data/readers/test_fasttext_vectors.py and tests/data/test_vectors.py.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, UInt8

from catena.data.files import shorten
from catena.errors import DataError, FormatError
from catena.files import atomic_write

MARK = "catena-vectors"
VERSION = 1
_LARGEST_HEADER = 100_000_000
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "U8": np.dtype("u1")}


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """The content of a file of vectors: words as bytes, their vectors, and rows of character n-grams."""

    names: UInt8[np.ndarray, " bytes"]
    ends: Int[np.ndarray, " v"]
    counts: Int[np.ndarray, " v"]
    matrix: Float32[np.ndarray, "v d"]
    buckets: Float32[np.ndarray, "n d"] | None = None
    shortest: int = 0
    longest: int = 0

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        counts: Sequence[int],
        matrix: Float32[np.ndarray, "v d"],
        buckets: Float32[np.ndarray, "n d"] | None = None,
        lengths: tuple[int, int] = (0, 0),
    ) -> StoredVectors:
        """The content of a file with these words. ``lengths`` are the shortest and the longest n-gram of buckets."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        names = np.frombuffer(b"".join(encoded), np.uint8).copy()
        ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
        return cls(names, ends, np.array(counts, np.int64), matrix, buckets, *lengths)

    @property
    def words(self) -> list[str]:
        """The words as strings."""
        whole = self.names.tobytes()
        return [whole[low:high].decode("utf-8", "surrogatepass") for low, high in pairwise([0, *self.ends.tolist()])]


def is_safetensors(first_bytes: bytes) -> bool:
    """Whether the first nine bytes of a file are safetensors: the size of a header, and its brace."""
    return len(first_bytes) >= 9 and first_bytes[8:9] == b"{" and _size(first_bytes) <= _LARGEST_HEADER


def _size(first_bytes: bytes) -> int:
    return struct.unpack("<Q", first_bytes[:8])[0]


def read_own_vectors(path: Path) -> StoredVectors:
    """Open a file of vectors. The matrices are memory-mapped; changes to them do not change the file."""
    header, start = _header(path)
    about = header.pop("__metadata__", {})
    if about.get("format") != MARK:
        raise FormatError(
            f"{path} is a safetensors file without word vectors (it has {', '.join(sorted(header)[:4])}). "
            f"Pass the vectors.safetensors of a run of 'catena train embed'."
        )
    if int(about.get("version", 0)) > VERSION:
        raise FormatError(f"{path} was written by a newer Catena. Run pip install --upgrade catena.")
    try:
        arrays = {name: _mapped(path, entry, start) for name, entry in header.items()}
        found = StoredVectors(
            np.array(arrays["words"]), np.array(arrays["ends"]), np.array(arrays["counts"]), arrays["vectors"],
            arrays.get("buckets"), int(about["shortest"]), int(about["longest"]),
        )  # fmt: skip
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{path} is damaged ({error}). Copy it again.") from None
    _check(path, found)
    return found


def _check(path: Path, found: StoredVectors) -> None:
    v = len(found.matrix)
    fits = len(found.ends) == len(found.counts) == v and (not v or int(found.ends[-1]) == len(found.names))
    if not fits or (np.diff(found.ends) < 0).any():
        raise FormatError(f"{path} is damaged (its words do not match its {v} vectors). Copy it again.")


def _header(path: Path) -> tuple[dict[str, Any], int]:
    with path.open("rb") as file:
        first = file.read(8)
        size = _size(first) if len(first) == 8 else _LARGEST_HEADER
        text = file.read(size) if size < _LARGEST_HEADER else b""
    try:
        header = json.loads(text)
        assert isinstance(header, dict)
    except (ValueError, AssertionError, RecursionError):
        raise FormatError(f"{path} is damaged (it has no safetensors header). Copy it again.") from None
    return header, 8 + size


def _mapped(path: Path, entry: Mapping[str, Any], start: int) -> np.ndarray:
    dtype, shape = _TYPES[entry["dtype"]], tuple(int(n) for n in entry["shape"])
    low, high = entry["data_offsets"]
    if high - low != dtype.itemsize * math.prod(shape) or start + high > path.stat().st_size:
        raise ValueError("it is truncated")
    if not math.prod(shape):
        return np.zeros(shape, dtype)
    # Copy on write: torch requires writable memory, and the file must not change.
    return np.asarray(np.memmap(path, dtype, "c", start + low, shape))


# --- writing ----------------------------------------------------------------------------------------------------------


def write_word2vec(path: Path, words: Iterable[str], matrix: Float32[np.ndarray, "v d"], binary: bool) -> None:
    """Write the word2vec text or binary format, which gensim and many other programs read."""
    v, d = matrix.shape
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        file.write(f"{v} {d}\n".encode())
        for word, row in zip(words, matrix, strict=True):
            name = _whole_word(word, "word2vec")
            file.write(name + b" " + row.astype("<f4").tobytes() if binary else _line(name, row))


def write_glove(path: Path, words: Iterable[str], matrix: Float32[np.ndarray, "v d"]) -> None:
    """Write the GloVe text format, which is the word2vec format without the first line."""
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        for word, row in zip(words, matrix, strict=True):
            file.write(_line(_whole_word(word, "GloVe"), row))


def write_stored_vectors(path: Path, stored: StoredVectors) -> None:
    """Write Catena's own format."""
    from safetensors.numpy import save_file

    arrays = {
        "vectors": np.ascontiguousarray(stored.matrix, "<f4"),
        "words": np.ascontiguousarray(stored.names, np.uint8),
        "ends": np.ascontiguousarray(stored.ends, np.int64),
        "counts": np.ascontiguousarray(stored.counts, np.int64),
    }
    if stored.buckets is not None:
        arrays["buckets"] = np.ascontiguousarray(stored.buckets, "<f4")
    about = {
        "format": MARK,
        "version": str(VERSION),
        "shortest": str(stored.shortest),
        "longest": str(stored.longest),
    }
    with atomic_write(path) as unfinished:
        save_file(arrays, unfinished, about)
        os.chmod(unfinished, 0o666 & ~_umask())  # safetensors makes the file readable by its owner only


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _whole_word(word: str, format: str) -> bytes:
    if not word or any(letter.isspace() for letter in word):
        raise DataError(
            f"The word {shorten(word)} has a blank, which the {format} format does not support. Save as .safetensors."
        )
    return word.encode("utf-8", "surrogatepass")


def _line(name: bytes, row: np.ndarray) -> bytes:
    # Nine digits restore the same float32.
    return name + b" " + " ".join(f"{x:.9g}" for x in row.tolist()).encode() + b"\n"
