"""A back-off model as a sorted trie: the format of estimators, pruning and files.

Nodes are n-grams in breadth-first order, those of one length sorted; see :mod:`catena.kernels.ngram.cpu_counts`.

Tested in tests/lm/ngram/test_counts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catena.errors import DataError, LimitError
from catena.lm.ngram.array_storage import MEMORY, ArrayStore

IntegerArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
Floats = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
Flags = NDArray[np.uint8]

MOST = 2**31 - 2


@dataclass(frozen=True)
class NgramInfo:
    """The name of a model's estimator, whether its probabilities sum to one, and warnings.

    ``notes`` are warnings as full sentences.
    """

    estimator: str = ""
    normalized: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TrieLayout:
    """The n-grams of a trie.

    Args:
        words: the last word of each n-gram.
        first: the children of node g are ``first[g] … first[g + 1] - 1``; nodes of the greatest length have none.
        suffix: the n-gram without its first word.
        bases: ``bases[k]`` is the first n-gram of length k, ``bases[order + 1]`` the number of nodes.
    """

    words: IntegerArray
    first: IntegerArray
    suffix: IntegerArray
    bases: LongArray

    @property
    def order(self) -> int:
        return len(self.bases) - 2

    @property
    def v(self) -> int:
        return int(self.bases[2] - 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of n-grams of each length, from 1; every word of the vocabulary is one."""
        return tuple(int(n) for n in np.diff(self.bases)[1:])

    def histories(self, k: int) -> tuple[int, int]:
        """The range of nodes whose children have length ``k``."""
        return int(self.bases[k - 1]), int(self.bases[k])

    def grams(self, k: int) -> tuple[int, int]:
        """The range of nodes of length ``k``."""
        return int(self.bases[k]), int(self.bases[k + 1])

    def spelled(self, k: int) -> IntegerArray:
        """All n-grams of length ``k``, one row of words each."""
        from catena.kernels.ngram.cpu_counts import spell_ngrams

        low, high = self.grams(k)
        rows = np.empty((high - low, k), np.int32)
        spell_ngrams(self.words, self.first, self.bases, k, rows.reshape(-1))
        return rows

    def compacted(self, kept: Flags) -> tuple[TrieLayout, IntegerArray]:
        """The trie of the nodes that are kept, and the new index of each node (-1: removed)."""
        from catena.kernels.ngram.cpu_estimate import compact

        words, first, suffix, bases = self.words.copy(), self.first.copy(), self.suffix.copy(), self.bases.copy()
        places = np.empty(len(words), np.int32)
        compact(kept, words, first, suffix, bases, places)
        n = int(bases[-1])
        return TrieLayout(words[:n], first[: bases[-2] + 1], suffix[:n], bases), places


@dataclass(frozen=True, eq=False)
class Trie:
    """A back-off model.

    Args:
        shape: the n-grams.
        log_probs: natural log-probabilities of the n-grams; undefined for node 0 and impossible words.
        backoffs: log back-off weights of the nodes that may have children, the empty one first.
        flat: whether all words that a history does not contain have the probability exp(backoff), without backing
            off.
        space: allocates arrays computed from these.
    """

    shape: TrieLayout
    log_probs: Floats
    backoffs: Floats
    flat: bool = False
    space: ArrayStore = MEMORY

    def levels(self) -> Iterator[tuple[int, int, int]]:
        """(length, first node, node after the last) of each length."""
        for k in range(1, self.shape.order + 1):
            yield k, *self.shape.grams(k)


def check_size(n: int, what: str) -> None:
    """Raise LimitError if there are more than the ids of nodes can represent."""
    if n > MOST:
        raise LimitError(
            f"the number of {what} of an n-gram model must be at most {MOST:,}, got {n:,}. Lower the order, or use "
            "less text."
        )


def check_ids(name: str, ids: NDArray[Any], n: int) -> None:
    """Raise DataError unless all ids are from 0 to n - 1: a kernel would access memory out of bounds."""
    if len(ids) and not (ids.min() >= 0 and ids.max() < n):
        wrong = ids[(ids < 0) | (ids >= n)][0]
        raise DataError(f"{name} must be from 0 to {n - 1}, got {wrong}. Use the ids of this model.")
