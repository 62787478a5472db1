"""Writing word vectors atomically, in Catena's format and those of other programs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from catena.data.files import shorten
from catena.data.readers.own_vectors import MARK, VERSION, StoredVectors
from catena.errors import DataError
from catena.files import atomic_write


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
