"""Rows of integers in compact arrays, in a temporary file if there are many, so that memory does not grow with them.

Files are read block by block rather than mapped, because the pages of a mapped file count as memory of the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from catena.tasks.classify.linear.features import FeatureRows
from catena.tasks.classify.linear.symbols import row_starts

IN_MEMORY = 64 * 2**20
"""Bytes of one array that are kept in memory before they are moved to a file."""
WHOLE = 2**25
"""Number of feature ids that are loaded together: all texts are shuffled together if they have no more."""


class Spool:
    """An array that grows at its end and is read in slices."""

    def __init__(self, dtype: type[np.generic] = np.int32) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None
        self._saved = self._waiting = 0

    def __len__(self) -> int:
        return self._saved + self._waiting

    def append(self, values: np.ndarray) -> None:
        self._parts.append(np.ascontiguousarray(values, self._dtype))
        self._waiting += len(values)
        if self._waiting * self._dtype.itemsize >= IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="catena-rows-")  # noqa: SIM115 (lives as long as the array)
        self._file.seek(0, 2)
        for part in self._parts:
            part.tofile(self._file)
        self._saved += self._waiting
        self._parts, self._waiting = [], 0

    def read(self, low: int, high: int) -> np.ndarray:
        """The values from ``low`` to ``high - 1``."""
        if self._file is None:
            if len(self._parts) != 1:
                self._parts = [np.concatenate(self._parts) if self._parts else np.zeros(0, self._dtype)]
            return self._parts[0][low:high]
        if self._waiting:
            self._flush()
        self._file.seek(low * self._dtype.itemsize)
        return np.fromfile(self._file, self._dtype, max(0, high - low))


class RowSpool:
    """Rows of integers of different lengths, appended and read in chunks."""

    def __init__(self) -> None:
        self._flat, self._sizes = Spool(), Spool()
        self.ends: list[tuple[int, int]] = [(0, 0)]
        """The number of rows and of values up to each chunk."""
        self.longest = 0

    def append(self, flat: np.ndarray, first: np.ndarray) -> None:
        sizes = np.diff(first)
        self._flat.append(flat)
        self._sizes.append(sizes)
        self.ends.append((len(self._sizes), len(self._flat)))
        self.longest = max(self.longest, int(sizes.max(initial=0)))

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def n_values(self) -> int:
        return len(self._flat)

    def read(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """The values of a chunk, and where each of its rows begins."""
        (row, at), (row_end, end) = self.ends[chunk], self.ends[chunk + 1]
        return self._flat.read(at, end), row_starts(self._sizes.read(row, row_end))


@dataclass(frozen=True, eq=False)
class StoredTexts:
    """The features and the gold labels of texts, in chunks.

    Args:
        features: the rows of features.
        gold: the index of the set of gold labels of each text.
        sets: the sets of labels.
    """

    features: RowSpool
    gold: Spool
    sets: list[tuple[str, ...]]

    def append(self, rows: FeatureRows, gold: np.ndarray) -> None:
        self.features.append(rows.ids, rows.first)
        self.gold.append(gold)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_chunks(self) -> int:
        return len(self.features.ends) - 1

    def read(self, chunk: int) -> tuple[FeatureRows, np.ndarray]:
        """The features and the gold sets of a chunk."""
        low, high = self.features.ends[chunk][0], self.features.ends[chunk + 1][0]
        return FeatureRows(*self.features.read(chunk)), self.gold.read(low, high)

    def count_sets(self) -> dict[tuple[str, ...], int]:
        """The number of texts with each set of labels that occurs."""
        counts = np.zeros(len(self.sets), np.int64)
        for chunk in range(self.n_chunks):
            low, high = self.features.ends[chunk][0], self.features.ends[chunk + 1][0]
            counts += np.bincount(self.gold.read(low, high), minlength=len(counts))
        return {labels: n for labels, n in zip(self.sets, counts.tolist(), strict=True) if n}

    def gather(self, chunks: np.ndarray) -> tuple[FeatureRows, np.ndarray, np.ndarray]:
        """The features, the gold sets and the indices of the texts of several chunks."""
        begins, ends = np.array(self.features.ends)[chunks], np.array(self.features.ends)[chunks + 1]
        n_rows, n_values = (ends - begins).sum(0).tolist()
        ids, first = np.empty(n_values, np.int32), np.zeros(n_rows + 1, np.int64)
        gold, index = np.empty(n_rows, np.int32), np.empty(n_rows, np.int64)
        row = value = 0
        for chunk, begin in zip(chunks.tolist(), begins[:, 0].tolist(), strict=True):
            rows, own = self.read(chunk)
            place = slice(row, row + len(rows))
            ids[value : value + len(rows.ids)] = rows.ids
            first[row + 1 : row + len(rows) + 1] = rows.first[1:] + value
            gold[place], index[place] = own, np.arange(begin, begin + len(rows))
            row, value = row + len(rows), value + len(rows.ids)
        return FeatureRows(ids, first), gold, index

    def groups(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Consecutive chunks of ``order``, of about ``WHOLE`` feature ids together."""
        begin = size = 0
        for at, chunk in enumerate(order.tolist()):
            own = self.features.ends[chunk + 1][1] - self.features.ends[chunk][1]
            if at > begin and size + own > WHOLE:
                yield order[begin:at]
                begin, size = at, 0
            size += own
        if begin < len(order):
            yield order[begin:]
