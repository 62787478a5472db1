"""Words as concatenated bytes with counts and a hash table, for millions of words without Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int, UInt8

from catena.errors import UnknownNameError
from catena.kernels.ngram.cpu_text import hash_names, insert_keys
from catena.kernels.word2vec.cpu_words import lookup_hashes, taken
from catena.registry import did_you_mean


class UnknownWordError(UnknownNameError):
    """A word without a vector.

    The nearest words are searched when the message is read, because a search takes about 40 ms and programs that look
    up every word of a text never read it.
    """

    def __init__(self, word: str, words: WordIndex) -> None:
        super().__init__(word)
        self.word, self._words = word, words

    @cached_property
    def _message(self) -> str:
        return f"No vector for {self.word!r}: {self._words.nearest_hint(self.word)}"

    def __str__(self) -> str:
        return self._message

    def __reduce__(self) -> tuple[object, ...]:
        return UnknownNameError, (str(self),)  # without the words


@dataclass(frozen=True, eq=False)
class WordIndex:
    """A list of distinct words.

    Args:
        names: their UTF-8 bytes without gaps.
        ends: the end of each word.
        counts: the count of each word; zeros if unknown.
    """

    names: UInt8[np.ndarray, " bytes"]
    ends: Int[np.ndarray, " v"]
    counts: Int[np.ndarray, " v"]

    @classmethod
    def of(cls, words: Sequence[str], counts: Sequence[int] | None = None) -> WordIndex:
        """Words from strings."""
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
        names = np.frombuffer(b"".join(encoded), np.uint8).copy()
        return cls(names, ends, np.zeros(len(words), np.int64) if counts is None else np.array(counts, np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> str:
        if not 0 <= i < len(self):
            raise IndexError(i)
        low = int(self.ends[i - 1]) if i else 0
        return bytes(self.names[low : int(self.ends[i])]).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        start, whole = 0, self.names.tobytes()
        for end in self.ends.tolist():
            yield whole[start:end].decode("utf-8", "surrogatepass")
            start = end

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and bool(self.find([word])[0] >= 0)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        size = 1 << max(4, (2 * len(self)).bit_length())
        keys, values = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        found = np.zeros(len(self), np.uint64)
        hash_names(np.ascontiguousarray(self.names), np.ascontiguousarray(self.ends, np.int64), found)
        # From the last to the first: of two equal words the first one is found.
        insert_keys(found[::-1].copy(), np.arange(len(self) - 1, -1, -1, dtype=np.int32), keys, values)
        return keys, values

    def find(self, words: Sequence[str]) -> Int[np.ndarray, " n"]:
        """The index of each word; -1 for words that are not in the list."""
        asked = WordIndex.of(words)
        keys, values = self._table
        hashes, found = np.zeros(len(asked), np.uint64), np.zeros(len(asked), np.int64)
        hash_names(asked.names, asked.ends, hashes)
        lookup_hashes(hashes, keys, values, found)
        for i, (at, word) in enumerate(zip(found.tolist(), words, strict=True)):
            if at >= 0 and self[at] != word:  # another word with the same hash
                found[i] = -1
        return found

    def number(self, word: str) -> int:
        """The index of a word. Raise UnknownWordError, a KeyError, if it is not in the list."""
        at = int(self.find([word])[0])
        if at < 0:
            raise UnknownWordError(word, self)
        return at

    def nearest_hint(self, word: str) -> str:
        """The end of an error message: the words with the most similar spelling among the first 20,000."""
        for other in (word.lower(), word.capitalize(), word.upper()):
            if other != word and other in self:
                return f"did you mean {other!r}?"
        frequent = (name for name, _ in zip(self, range(20_000), strict=False))
        return did_you_mean(word, frequent) if len(self) else "there are no words"

    def take(self, rows: Int[np.ndarray, " n"]) -> WordIndex:
        """Some of the words, in the given order."""
        given, ends = (self.names, self.ends, np.ascontiguousarray(rows, np.int64)), np.zeros(len(rows), np.int64)
        names = np.zeros(taken(*given, np.zeros(0, np.uint8), ends), np.uint8)
        taken(*given, names, ends)
        return WordIndex(names, ends, self.counts[rows].astype(np.int64))
