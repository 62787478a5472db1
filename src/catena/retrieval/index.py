"""An index of texts with exact top-k search, block by block, in memory-mapped files.

An index part scores a block of its texts for some queries; :func:`search` keeps the best of all blocks, so that memory
does not grow with the number of texts. Time O(n m d) for n queries of size d and m texts.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from catena.accelerators import can_skip_kernels
from catena.checkpoint import read_stored
from catena.errors import CheckpointError, DataError
from catena.retrieval.terms import TermWeights

BLOCK = 1 << 14
"""Number of texts in a block."""
VECTORS, OFFSETS, WORDS, WEIGHTS, NAMES = (
    "vectors.npy", "term_offsets.npy", "term_ids.npy", "term_weights.npy", "term_names.json",
)  # fmt: skip


class IndexPart(ABC):
    """Texts scored by one matcher. The type of a query depends on the subclass."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of texts."""

    @abstractmethod
    def block(self, queries: Any, low: int, high: int) -> Float32[np.ndarray, "n m"]:
        """Return the scores of texts ``low`` up to ``high`` for each query."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the part into a folder."""


class VectorPart(IndexPart):
    """Texts as vectors; queries are vectors, and a score is their dot product."""

    def __init__(self, matrix: Float32[np.ndarray, "m d"]) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return len(self.matrix)

    def block(self, queries: Float32[np.ndarray, "n d"], low: int, high: int) -> Float32[np.ndarray, "n m"]:
        return queries @ np.asarray(self.matrix[low:high]).T

    def save(self, folder: Path) -> None:
        np.save(folder / VECTORS, np.ascontiguousarray(self.matrix, np.float32))

    @classmethod
    def load(cls, folder: Path) -> VectorPart:
        """Load the part with its matrix memory-mapped."""
        matrix = _mapped(folder / VECTORS)
        if matrix.ndim != 2 or matrix.dtype != np.float32:
            raise CheckpointError(
                f"{folder / VECTORS} must be a matrix of float32, got {matrix.dtype} of shape {matrix.shape}. Copy the "
                f"model again."
            )
        return cls(matrix)


class TermPart(IndexPart):
    """Texts as sparse word weights, row after row; queries are weights by word."""

    def __init__(
        self,
        offsets: Int64[np.ndarray, " m1"],
        words: Int64[np.ndarray, " z"],
        weights: Float32[np.ndarray, " z"],
        names: dict[str, int],
    ) -> None:
        self.offsets, self.words, self.weights, self.names = offsets, words, weights, names

    @classmethod
    def of(cls, documents: Sequence[TermWeights]) -> TermPart:
        """Return an index of texts given by word weights."""
        names: dict[str, int] = {}
        words = [names.setdefault(word, len(names)) for document in documents for word in document]
        weights = [weight for document in documents for weight in document.values()]
        offsets = np.concatenate(([0], np.cumsum([len(document) for document in documents], dtype=np.int64)))
        return cls(offsets.astype(np.int64), np.array(words, np.int64), np.array(weights, np.float32), names)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def block(self, queries: Sequence[TermWeights], low: int, high: int) -> Float32[np.ndarray, "n m"]:
        first, last = int(self.offsets[low]), int(self.offsets[high])
        words, weights = np.asarray(self.words[first:last]), np.asarray(self.weights[first:last], np.float64)
        rows = np.repeat(np.arange(high - low), np.diff(self.offsets[low : high + 1]))
        found = np.empty((len(queries), high - low), np.float32)
        query_weights = np.zeros(len(self.names))
        for i, query in enumerate(queries):
            known = [(self.names[word], weight) for word, weight in query.items() if word in self.names]
            columns = np.array([column for column, _ in known], np.int64)
            query_weights[columns] = [weight for _, weight in known]
            found[i] = np.bincount(rows, weights * query_weights[words], minlength=high - low)
            query_weights[columns] = 0.0
        return found

    def save(self, folder: Path) -> None:
        np.save(folder / OFFSETS, self.offsets)
        np.save(folder / WORDS, self.words)
        np.save(folder / WEIGHTS, self.weights)
        (folder / NAMES).write_text(json.dumps(list(self.names), ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> TermPart:
        """Load the part with its weights memory-mapped."""
        names = read_stored(folder / NAMES, list[str])
        offsets, words, weights = (_mapped(folder / name) for name in (OFFSETS, WORDS, WEIGHTS))
        fits = (
            [part.dtype.kind + str(part.ndim) for part in (offsets, words, weights)] == ["i1", "i1", "f1"]
            and len(offsets) > 0
            and offsets[0] == 0
            and offsets[-1] == len(words) == len(weights)
            and (np.diff(offsets) >= 0).all()
            and (len(words) == 0 or (words.min() >= 0 and words.max() < len(names) and np.isfinite(weights).all()))
        )
        if not fits:
            raise CheckpointError(f"The files of the index in {folder} do not fit together. Copy the model again.")
        return cls(offsets, words, weights, {name: i for i, name in enumerate(names)})


class MixedPart(IndexPart):
    """Parts over the same texts; a score is the weighted sum of theirs, a query the tuple of their queries."""

    def __init__(self, parts: Sequence[IndexPart], weights: Sequence[float]) -> None:
        if len({len(part) for part in parts}) != 1:
            sizes = [len(part) for part in parts]
            raise DataError(f"The parts of an index must have equally many texts, got {sizes}. Index the same texts.")
        self.parts, self.weights = list(parts), list(weights)

    def __len__(self) -> int:
        return len(self.parts[0])

    def block(self, queries: Sequence[Any], low: int, high: int) -> Float32[np.ndarray, "n m"]:
        terms = zip(self.parts, self.weights, queries, strict=True)
        scored = [np.float32(weight) * part.block(query, low, high) for part, weight, query in terms]
        return np.asarray(np.sum(scored, axis=0), np.float32)

    def save(self, folder: Path) -> None:
        raise NotImplementedError("A mixed part cannot be saved. Save each part.")


def search(
    part: IndexPart, queries: Any, n: int, k: int, block: int = BLOCK
) -> tuple[Float32[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
    """Return the ``k`` best texts for each of ``n`` queries as scores and indices, best first, ties by index.

    If there are fewer texts than ``k``, all of them are returned.

    Args:
        part: the index.
        queries: the queries, in the form that ``part`` expects.
        n: number of queries.
        k: number of texts to return.
        block: number of texts scored in one batch.
    """
    if k < 1:
        raise DataError(f"k must be at least 1, got {k}. Use 1 for the best text.")
    k = min(k, len(part))
    scores = np.full((n, k), -np.inf, np.float32)
    indices = np.full((n, k), np.iinfo(np.int64).max, np.int64)
    if n and k:
        for low in range(0, len(part), block):
            high = min(low + block, len(part))
            found = np.ascontiguousarray(part.block(queries, low, high), np.float32)
            _keep_best(found, low, scores, indices)
    order = np.lexsort((indices, -scores), axis=1)
    return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1)


def _keep_best(found: Float32[np.ndarray, "n b"], low: int, scores: np.ndarray, indices: np.ndarray) -> None:
    """Bring the scores of a block of texts that begins at ``low`` into the best so far, in place."""
    if not can_skip_kernels(1000 + found.size // 5):
        from catena.kernels.top_k.cpu_nearest import keep_best

        keep_best(found, np.ones(found.shape[1], np.float32), low, scores, indices)
        return
    here = np.broadcast_to(np.arange(low, low + found.shape[1]), found.shape)
    every, places = np.concatenate((scores, found), 1), np.concatenate((indices, here), 1)
    order = np.lexsort((places, -every), axis=1)[:, : scores.shape[1]]
    scores[:], indices[:] = np.take_along_axis(every, order, 1), np.take_along_axis(places, order, 1)


def _mapped(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"{path} is not a valid index file ({error}). Copy the model again.") from None
