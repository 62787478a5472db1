"""Counts of all n-grams of a text of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from catena.errors import ConfigError
from catena.kernels.ngram.cpu_counts import adjusted_counts, common_prefixes, fill_trie, sorted_positions
from catena.kernels.ngram.cpu_estimate import counts_of_counts
from catena.lm.ngram.array_storage import MEMORY, ArrayStore
from catena.lm.ngram.trie import IntegerArray, LongArray, TrieLayout, check_ids, check_size

MOST_ORDER = 250


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """The counts of all n-grams of a text, up to an order.

    Args:
        shape: the n-grams, as a trie.
        counts: of each node. The start token is never predicted, so as a word it has count 0.
        begin: the id before every sentence.
        end: the id after every sentence.
        impossible: ids that are never predicted: padding, the start token, and other special tokens.
        space: allocates arrays computed from these counts.
    """

    shape: TrieLayout
    counts: IntegerArray
    begin: int
    end: int
    impossible: tuple[int, ...]
    space: ArrayStore = MEMORY

    @property
    def order(self) -> int:
        return self.shape.order

    @property
    def events(self) -> int:
        """The number of words that can be predicted."""
        return self.shape.v - len(self.impossible)

    @cached_property
    def adjusted(self) -> IntegerArray:
        """The number of different words before each n-gram (Kneser & Ney's counts)."""
        found = self.space.zeros(len(self.counts), np.int32)
        adjusted_counts(self.counts, self.shape.first, self.shape.bases, self.shape.suffix, self.begin, found)
        return found

    def of_counts(self, k: int, most: int, kneser_ney: bool = False) -> LongArray:
        """``[c]`` is the number of n-grams of length ``k`` with count c ≤ most."""
        found = np.zeros(most + 1, np.int64)
        counts_of_counts(self.adjusted if kneser_ney else self.counts, *self.shape.grams(k), found)
        return found


def count_ids(
    tokens: IntegerArray, order: int, v: int, begin: int, end: int, impossible: Sequence[int], padded: bool = False
) -> NgramCounts:
    """Count the n-grams of sentences, each given as ``begin``, its ids and ``end``, concatenated.

    ``padded`` means that ``order`` zeros already follow the last sentence. Time O(order · (n + v)).
    """
    check_order(order)
    check_size(len(tokens) * order, "n-grams")
    check_ids("tokens", np.asarray(tokens), v)
    check_ids("begin and end", np.array([begin, end]), v)
    if not padded:
        tokens = np.concatenate((np.asarray(tokens, np.int32), np.zeros(order, np.int32)))
    n = len(tokens) - order
    positions = sorted_positions(tokens, n, order, v)
    shared, depth = np.empty(n, np.uint8), np.empty(n, np.uint8)
    sizes = np.zeros(order + 1, np.int64)
    common_prefixes(tokens, positions, order, end, shared, depth, sizes)
    sizes[0], sizes[1] = 1, v
    bases = np.concatenate(([0], np.cumsum(sizes)))
    words, counts, suffix = (np.zeros(bases[-1], np.int32) for _ in range(3))
    first = np.zeros(bases[order] + 1, np.int32)
    fill_trie(tokens, positions, shared, depth, order, bases, words, counts, first, suffix)
    counts[1 + begin] = 0
    return NgramCounts(TrieLayout(words, first, suffix, bases), counts, begin, end, tuple(impossible))


def check_order(order: int) -> None:
    """Raise ConfigError if the order is below 1 or above the maximum."""
    if not 1 <= order <= MOST_ORDER:
        raise ConfigError(f"order must be from 1 to {MOST_ORDER}, got {order}. Use a value such as 3.")
