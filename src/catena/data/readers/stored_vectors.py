"""Any file of word vectors, detected by content: Catena's own, binary fastText models, word2vec and GloVe."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from catena.data.files import open_bytes, reading_errors
from catena.data.readers.fasttext_vectors import is_fasttext, read_fasttext
from catena.data.readers.own_vectors import StoredVectors, is_safetensors, read_own_vectors
from catena.data.readers.vectors import read_vectors
from catena.errors import FormatError

__all__ = ["StoredVectors", "read_stored_vectors"]


def read_stored_vectors(path: Path) -> StoredVectors:
    """Read all vectors of a file."""
    with open_bytes(path) as stream, reading_errors(path):
        first = stream.read(9)
        is_packed = not isinstance(stream.raw, io.FileIO)
    if is_packed and (is_safetensors(first) or is_fasttext(first)):
        raise FormatError(f"{path} is compressed, and its format can only be read uncompressed. Decompress it first.")
    if is_safetensors(first):
        return read_own_vectors(path)
    if is_fasttext(first):
        return read_fasttext(path)
    if first[:1] == b"\x80":
        raise FormatError(
            f"{path} is a pickle, which gensim's save() writes and Catena never opens. Write the vectors with gensim's "
            f"save_word2vec_format() instead."
        )
    found = read_vectors(path)
    encoded = [word.encode("utf-8", "surrogatepass") for word in found.words]
    return StoredVectors(
        np.frombuffer(b"".join(encoded), np.uint8).copy(),
        np.cumsum([len(word) for word in encoded], dtype=np.int64),
        np.zeros(len(encoded), np.int64),
        found.matrix,
    )
