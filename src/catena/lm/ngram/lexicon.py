"""From text to ids by hashing: a fixed vocabulary, and one that grows as text is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from catena.data.config import VocabularyConfig
from catena.data.vocabulary import UNK, Vocabulary
from catena.kernels.ngram.cpu_text import KINDS, hash_names, insert_keys, tokenize_lines
from catena.lm.base import SPECIALS
from catena.lm.ngram.trie import IntegerArray, LongArray

Bytes = NDArray[np.uint8]
MARKS = 2
"""While types are collected, ids 0 and 1 are begin and end; type t has id t + MARKS."""


def encode_utf8(text: str) -> Bytes:
    """UTF-8 with lone surrogates, which are invalid text but may occur in a string."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _table(keys: NDArray[np.uint64], values: IntegerArray, capacity: int) -> tuple[NDArray[np.uint64], IntegerArray]:
    """A hash table of these with capacity for ``capacity`` entries; at most two thirds of it are used."""
    size = 1 << max(10, (3 * capacity // 2).bit_length())
    table, ids = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    insert_keys(keys, values, table, ids)
    return table, ids


class Lexicon:
    """The ids of tokens in a fixed vocabulary. Special tokens never match text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        first = len(vocabulary.specials)
        names = [name.encode("utf-8", "surrogatepass") for name in vocabulary.symbols[first:]]
        blob = np.frombuffer(b"".join(names), np.uint8)
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        keys = np.empty(len(names), np.uint64)
        hash_names(blob, ends, keys)
        self._keys, self._values = _table(keys, np.arange(first, first + len(names), dtype=np.int32), len(names))

    @property
    def table(self) -> tuple[NDArray[np.uint64], IntegerArray]:
        """The table of hashes, and the id in each of its slots."""
        return self._keys, self._values

    def with_marks(self, marks: dict[str, int]) -> tuple[NDArray[np.uint64], IntegerArray]:
        """The table of hashes and ids, with ids for these names, too."""
        names = [name.encode() for name in marks]
        keys = np.empty(len(names), np.uint64)
        hash_names(np.frombuffer(b"".join(names), np.uint8), np.cumsum([len(name) for name in names]), keys)
        used = self._keys != 0
        all_keys = np.concatenate((self._keys[used], keys))
        values = np.concatenate((self._values[used], np.array(list(marks.values()), np.int32)))
        return _table(all_keys, values, len(all_keys))

    def sentences(self, data: Bytes, begin: int, end: int, skip_blank: bool = False) -> IntegerArray:
        """The ids of all lines, each with ``begin`` before it, unless that is negative, and ``end`` after it.

        The last line need not have a line end.
        """
        out, at = _id_buffer(data), np.zeros(4, np.int64)
        none = np.empty(0, np.uint8), np.empty(0, np.int64)
        tokenize_lines(data, at, self._keys, self._values, *none, out, KINDS, 0, UNK, begin, end, int(skip_blank))
        return _closed(out, at, data, begin, end, skip_blank)


def _id_buffer(data: Bytes) -> IntegerArray:
    """An array for the ids of all possible tokens, and two for every line."""
    lines = int(np.count_nonzero(data == 10)) + int(np.count_nonzero(data == 13))
    return np.empty(len(data) // 2 + 2 * lines + 4, np.int32)


def _closed(out: IntegerArray, at: LongArray, data: Bytes, begin: int, end: int, skip_blank: bool) -> IntegerArray:
    """The ids so far, with an end after the last line if the data has none."""
    n = int(at[2])
    unfinished = len(data) > 0 and data[-1] not in (10, 13)
    if unfinished and (at[1] or not skip_blank):
        marks = [end] if at[1] or begin < 0 else [begin, end]
        out[n : n + len(marks)] = marks
        n += len(marks)
    return out[:n]


class Types:
    """The different tokens of a text, in the order of their first occurrence."""

    def __init__(self) -> None:
        self._keys, self._values = _table(np.empty(0, np.uint64), np.empty(0, np.int32), 1 << 15)
        self._names = np.empty(1 << 20, np.uint8)
        self._ends = np.empty(1 << 15, np.int64)
        self.n = 0

    def sentences(self, data: Bytes, skip_blank: bool = False) -> IntegerArray:
        """The ids of all lines: ``MARKS`` + index of the type, between 0 and 1."""
        out, at = _id_buffer(data), np.array([0, 0, 0, self.n])
        while True:
            used = int(self._ends[self.n - 1]) if self.n else 0
            if used + len(data) > len(self._names):
                self._names = np.concatenate((self._names[:used], np.empty(used + 2 * len(data), np.uint8)))
            most = len(self._ends)
            tables = (self._keys, self._values, self._names, self._ends)
            tokenize_lines(data, at, *tables, out, KINDS, most, MARKS, 0, 1, int(skip_blank))
            self.n = int(at[3])
            if self.n < most:
                break
            self._ends = np.concatenate((self._ends, np.empty(most, np.int64)))
            used_places = self._keys != 0
            self._keys, self._values = _table(self._keys[used_places], self._values[used_places], 2 * most)
        return _closed(out, at, data, 0, 1, skip_blank)

    def names(self) -> list[str]:
        ends = self._ends[: self.n].tolist()
        blob = self._names[: ends[-1] if ends else 0].tobytes()
        starts = [0, *ends][:-1]
        return [blob[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]

    def vocabulary(self, counts: Sequence[int], settings: VocabularyConfig | None) -> tuple[Vocabulary, IntegerArray]:
        """The vocabulary that a config selects, and its id for each id assigned so far."""
        names = self.names()
        vocabulary = Vocabulary.from_counts(dict(zip(names, counts, strict=True)), settings, SPECIALS)
        marks = [vocabulary.special(name) for name in SPECIALS]
        return vocabulary, np.array([*marks, *vocabulary.ids(names)], np.int32)
