"""A tokenized corpus as one flat array of ids.

Tokens get provisional ids in the order of their first occurrence, so that one pass over a file is enough. The
vocabulary is then chosen from the counts of the training split, and :meth:`Corpus.renumbered` maps the array to it. An
array larger than ``IN_MEMORY`` moves to a temporary file and is memory-mapped, so that memory does not grow with the
text.
"""

from __future__ import annotations

import array
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

IN_MEMORY = 64 * 2**20
"""Bytes of ids that are kept in memory before they are moved to a file."""


class GrowingArray:
    """An array that grows, in memory while it is small and then in a temporary file.

    Args:
        typecode: the type of the values: ``i`` for int32, ``f`` for float32.
        most: bytes that are kept in memory; :data:`IN_MEMORY` if None.
    """

    def __init__(self, typecode: Literal["i", "f"], most: int | None = None) -> None:
        self._tail: array.array[Any] = array.array(typecode)
        self._most = IN_MEMORY if most is None else most
        self._file: IO[bytes] | None = None

    def extend(self, values: Iterable[int] | np.ndarray) -> None:
        if isinstance(values, np.ndarray):
            self._tail.frombytes(values.tobytes())
        else:
            self._tail.extend(values)
        if len(self._tail) * self._tail.itemsize >= self._most:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="catena-array-")  # noqa: SIM115 (lives as long as the array)
            self._tail.tofile(self._file)
            del self._tail[:]

    def finish(self) -> np.ndarray:
        """The whole array. Nothing can be added afterwards."""
        dtype = np.dtype(self._tail.typecode)
        if self._file is None:
            return np.frombuffer(self._tail, dtype) if self._tail else np.zeros(0, dtype)
        self._tail.tofile(self._file)
        self._file.flush()
        return np.memmap(self._file, dtype, mode="r+")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Ids of many examples: example ``i`` is ``flat[offsets[i] : offsets[i + 1]]``."""

    flat: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.flat[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def counts(self, examples: np.ndarray, size: int) -> np.ndarray:
        """The count of each of ``size`` ids in the given examples."""
        total = np.zeros(size, np.int64)
        for part in np.array_split(examples, max(1, len(examples) // 100_000)):
            if len(part):
                total += np.bincount(np.concatenate([self[int(i)] for i in part]), minlength=size)
        return total

    def renumbered(self, mapping: np.ndarray) -> Corpus:
        """The same corpus with id ``n`` replaced by ``mapping[n]``."""
        if isinstance(self.flat, np.memmap):
            for start in range(0, len(self.flat), 10_000_000):
                self.flat[start : start + 10_000_000] = mapping[self.flat[start : start + 10_000_000]]
            return self
        return Corpus(mapping[self.flat].astype(np.int32), self.offsets)


class CorpusBuilder:
    """Assigns ids to tokens. ``tokens`` lists every distinct token in the order of its provisional id."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._flat = GrowingArray("i")
        self._offsets = array.array("q", [0])

    @property
    def tokens(self) -> list[str]:
        return list(self._numbers)

    def add(self, tokens: Sequence[str]) -> None:
        numbers = self._numbers
        self._flat.extend([numbers.setdefault(token, len(numbers)) for token in tokens])
        self._offsets.append(self._offsets[-1] + len(tokens))

    def finish(self) -> Corpus:
        return Corpus(self._flat.finish(), np.frombuffer(self._offsets, dtype=np.int64))
