"""An index of words that finds all words within two edits of a word.

An edit is an insertion, deletion or substitution of a character, or a transposition of two adjacent ones. The index
holds the hash of every word without 0, 1 or 2 of its characters (Garbe 2012, SymSpell). For 29,000 words of English it
has 1.0 million entries of 12 bytes, is built in 0.2 s, and a search takes about 20 µs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catena.errors import ConfigError
from catena.kernels.spelling.cpu import edit_distances, fill_deletes, find_owners

_BUCKET_SIZE = 4
"""The mean number of entries in a bucket."""


class SimilarWords(NamedTuple):
    """Words within some edits of a query: their indices, and their edit distances from it."""

    words: NDArray[np.int32]
    distances: NDArray[np.int64]


class DeleteIndex:
    """Finds the words within ``max_edits`` edits of a word.

    Args:
        words: the words. A word of n characters has about n²/2 entries. Case is not ignored: convert words and
            queries to lower case if it should be.
        max_edits: the largest distance, 0, 1 or 2.
    """

    def __init__(self, words: Sequence[str], max_edits: int = 2) -> None:
        if max_edits not in (0, 1, 2):
            raise ConfigError(f"max_edits must be 0, 1 or 2, got {max_edits!r}. Use 2.")
        self.words = list(words)
        self.max_edits = max_edits
        self.codes = to_codes("".join(self.words))
        self.starts = np.cumsum([0, *map(len, self.words)])
        keys, owners = _deletes(self.codes, self.starts, max_edits)
        order = np.argsort(keys)
        self._keys, self._owners = keys[order], owners[order]
        self._buckets = _bucket_starts(self._keys)
        self._seen = np.full(len(self.words), -1, np.int32)
        self._stamp = -1

    def search(self, word: str, max_edits: int | None = None) -> SimilarWords:
        """The words within ``max_edits`` edits of a word, with their distances; by default that of the index."""
        limit = self.max_edits if max_edits is None else max_edits
        if not 0 <= limit <= self.max_edits:
            raise ConfigError(f"max_edits must be from 0 to {self.max_edits}, got {limit}. Build a larger index.")
        query = to_codes(word)
        sharing = self._find(query, limit)
        distances = np.empty(len(sharing), np.int64)
        edit_distances(query, self.codes, self.starts, sharing, limit, distances)
        near = distances <= limit
        return SimilarWords(sharing[near], distances[near])

    def _find(self, query: NDArray[np.int32], limit: int) -> NDArray[np.int32]:
        """The words that have a delete in common with a query."""
        deletes = _deletes(query, np.array([0, len(query)]), limit)[0]
        found = np.empty(len(self.words), np.int32)
        self._stamp += 1
        n = find_owners(deletes, self._keys, self._owners, self._buckets, self._seen, self._stamp, found)
        return found[:n]


def to_codes(text: str) -> NDArray[np.int32]:
    """The code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32).copy()


def _deletes(
    codes: NDArray[np.int32], starts: NDArray[np.int64], max_edits: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    lengths = np.diff(starts)
    sizes = 1 + lengths * (max_edits > 0) + lengths * (lengths - 1) // 2 * (max_edits > 1)
    keys = np.empty(int(sizes.sum()), np.uint64)
    owners = np.empty(len(keys), np.int32)
    n = fill_deletes(codes, starts, max_edits, keys, owners)
    return keys[:n], owners[:n]


def _bucket_starts(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where the hashes of each bucket start; a bucket holds the hashes with the same highest bits."""
    bits = max(0, int(np.log2(max(len(keys), 1) / _BUCKET_SIZE)))
    edges = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return np.concatenate(([0], np.searchsorted(keys, edges), [len(keys)]))
