"""Binary models of fastText, written here byte by byte as its documentation and sources have them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from catena.data.readers.fasttext_vectors import read_fasttext
from catena.data.readers.vectors import read_vectors
from catena.errors import FormatError
from catena.vectors.table import VectorTable
from tests.oracle import word2vec as oracle

WORDS = ["</s>", "where", "日本", "a"]
COUNTS = [9, 7, 5, 5]
D, BUCKET = 4, 20


def model(longest: int, version: int = 12, quantized: bool = False, pruned: int = -1, label: bool = False) -> bytes:
    rows = len(WORDS) + (BUCKET if longest else 0)
    matrix = np.random.default_rng(2).normal(size=(rows, D)).astype("<f4")
    data = struct.pack("<ii", 793712314, version)
    data += struct.pack("<12i", D, 5, 1, 1, 5, 1, 2, 2, BUCKET, 2 if longest else 0, longest, 100)
    data += struct.pack("<d", 1e-4)
    size = len(WORDS) + label
    data += struct.pack("<iiiqq", size, len(WORDS), int(label), 26, pruned)
    for word, count in zip(WORDS, COUNTS, strict=True):
        data += word.encode() + b"\0" + struct.pack("<qb", count, 0)
    if label:
        data += b"__label__x\0" + struct.pack("<qb", 3, 1)
    data += b"\1" if quantized else b"\0"
    return data + struct.pack("<qq", rows, D) + matrix.tobytes() + b"\0" + struct.pack("<qq", 0, D)


def rows_of(longest: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(len(WORDS) + (BUCKET if longest else 0), D)).astype(np.float32)


@pytest.mark.parametrize("longest", [0, 3])
@pytest.mark.parametrize("label", [False, True])
def test_words_have_the_mean_of_their_rows(tmp_path: Path, longest: int, label: bool) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(model(longest, label=label))
    vectors, rows = VectorTable.load(path), rows_of(longest)
    assert list(vectors.words) == WORDS
    assert vectors.words.counts.tolist() == COUNTS
    for i, word in enumerate(WORDS):
        grams = oracle.character_ngrams(word, 2, 3) if longest and word != "</s>" else []
        parts = [i, *(len(WORDS) + oracle.fnv1a(gram) % BUCKET for gram in grams)]
        np.testing.assert_allclose(vectors[word], rows[parts].mean(0), rtol=1e-5)
    if longest:
        parts = [len(WORDS) + oracle.fnv1a(gram) % BUCKET for gram in oracle.character_ngrams("here", 2, 3)]
        np.testing.assert_allclose(vectors["here"], rows[parts].mean(0), rtol=1e-5)


def test_only_wanted_words_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(model(3))
    some = read_vectors(path, {"a", "where", "never"})
    assert some.words == ("where", "a")
    np.testing.assert_allclose(some.matrix, VectorTable.load(path).rows(["where", "a"]), rtol=1e-6)
    assert read_fasttext(path, {"a"}).buckets is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (model(3)[:200], "truncated or damaged"),
        (model(3)[:40], "truncated or damaged"),
        (model(0)[:-60], "truncated or damaged"),
        (model(3, version=99), "must be 11 or 12, got 99"),
        (model(3, quantized=True), "quantized fastText model"),
        (model(3, pruned=5), "pruned fastText model"),
    ],
)
def test_unsupported_models_raise_error(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message):
        VectorTable.load(path)
