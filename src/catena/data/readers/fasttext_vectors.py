"""Binary fastText models (``.bin``), versions 11 and 12: words, and the vectors of words and n-grams.

The vector of a word is the mean of its own row and the rows of its character n-grams; ``</s>`` has only its own row.
Quantized models (``.ftz``) are not supported.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Collection
from pathlib import Path

import numpy as np

from catena.data.readers.own_vectors import StoredVectors
from catena.data.special_tokens import END_SYMBOL
from catena.errors import FormatError

_MAGIC = struct.pack("<i", 793_712_314)
_VERSIONS = (11, 12)
_ARGUMENTS = ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "rate")
_LONGEST_WORD = 1 << 16
TOGETHER = 1 << 16
"""Number of words whose vectors are computed in one batch."""


def is_fasttext(first_bytes: bytes) -> bool:
    """Whether a file begins like a binary fastText model."""
    return first_bytes.startswith(_MAGIC)


def read_fasttext(path: Path, wanted: Collection[str] | None = None) -> StoredVectors:
    """Read a model. With ``wanted``, only these words, without the rows of n-grams."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            arguments, words, counts = _beginning(path, file)
            quantized = file.read(1) != b"\0"
            rows, d = struct.unpack("<qq", file.read(16)) if not quantized else (0, 0)
        except (struct.error, UnicodeDecodeError):
            raise _cut_short(path) from None
        start = file.tell()
    if quantized:
        raise FormatError(f"{path} is a quantized fastText model. Use the .bin or .vec file that it was made from.")
    if d != arguments["dim"] or start + 4 * rows * d > size:
        raise _cut_short(path)
    matrix = np.asarray(np.memmap(path, "<f4", "c", start, (rows, d)))
    shortest, longest = arguments["minn"], arguments["maxn"]
    buckets = rows - len(words) if longest > 0 else 0
    keep = range(len(words)) if wanted is None else [i for i, word in enumerate(words) if word in wanted]
    chosen = [words[i] for i in keep]
    if buckets:
        vectors = _with_ngrams(chosen, np.array(keep, np.int64), matrix, len(words), shortest, longest)
    else:
        vectors = matrix[: len(words)] if wanted is None else matrix[list(keep)]
    grams = matrix[len(words) :] if buckets and wanted is None else None
    lengths = (shortest, longest) if buckets else (0, 0)
    return StoredVectors.from_words(chosen, [counts[i] for i in keep], vectors, grams, lengths)


def _beginning(path: Path, file: io.BufferedReader) -> tuple[dict[str, int], list[str], list[int]]:
    """The training arguments, and the words with their counts, without labels."""
    file.seek(len(_MAGIC))
    (version,) = struct.unpack("<i", file.read(4))
    if version not in _VERSIONS:
        raise FormatError(f"The fastText version of {path} must be 11 or 12, got {version}. Convert it to .vec.")
    arguments = dict(zip(_ARGUMENTS, struct.unpack("<12i", file.read(48)), strict=True))
    file.read(8)  # the threshold of subsampling
    size, n_words, _, _, pruned = struct.unpack("<iiiqq", file.read(28))
    if pruned > 0:
        raise FormatError(f"{path} is a pruned fastText model. Use the .bin or .vec file that it was made from.")
    words, counts = [], []
    for _ in range(size):
        word = bytearray()
        while (byte := file.read(1)) != b"\0":
            if not byte or len(word) > _LONGEST_WORD:
                raise _cut_short(path)
            word += byte
        count, kind = struct.unpack("<qb", file.read(9))
        if kind == 0:
            words.append(word.decode())
            counts.append(count)
    if len(words) != n_words:
        raise _cut_short(path)
    return arguments, words, counts


def _with_ngrams(
    words: list[str], rows: np.ndarray, matrix: np.ndarray, base: int, shortest: int, longest: int
) -> np.ndarray:
    """The mean of the row of each word and the rows of its n-grams."""
    result = np.empty((len(words), matrix.shape[1]), np.float32)
    for low in range(0, len(words), TOGETHER):
        some = words[low : low + TOGETHER]
        encoded = [b"" if word == END_SYMBOL else word.encode() for word in some]
        names = np.frombuffer(b"".join(encoded), np.uint8).copy()
        ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
        first = np.zeros(len(some) + 1, np.int64)
        given = (names, ends, shortest, longest, len(matrix) - base, 0, first)
        from catena.kernels.word2vec.cpu_sampling import ngram_parts

        parts = np.zeros(ngram_parts(*given, np.zeros(0, np.int32)), np.int32)
        ngram_parts(*given, parts)
        for i, word in enumerate(some):
            own = matrix[rows[low + i]]
            grams = parts[first[i] : first[i + 1]] if word != END_SYMBOL else parts[:0]
            result[low + i] = (own + matrix[base + grams].sum(0)) / (1 + len(grams))
    return result


def _cut_short(path: Path) -> FormatError:
    return FormatError(f"{path} is a truncated or damaged fastText model. Copy or download it again.")
