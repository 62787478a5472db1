"""N-grams of symbols as ids, listed in a table or hashed. No Python object is touched symbol by symbol.

A listed n-gram is a node of a trie: the id of its first n - 1 symbols and its last symbol, packed in a key of 64 bits,
so that different n-grams never collide. The table is open: a key is in its slot or in the next free one. The first
n - 1 symbols of a listed n-gram are always listed too, so a search stops at the first prefix that is missing.

Texts are rows of symbols, ``symbols[first[i] : first[i + 1]]``. ``singles`` are further symbols of the same texts that
form no n-grams, such as the character n-grams inside their tokens; their rows are ``single_first``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, njit

from catena.kernels.common.jit import INTS, KEYS, LONGS, jit_inline, lazy_jit
from catena.kernels.word2vec.cpu_sampling import splitmix64

_EMPTY = np.uint64(0)
_ONE = np.uint64(1)
_HIGH = np.uint64(32)
_SINGLE = np.uint64(0x9E3779B97F4A7C15)
"""Keeps the hashes of single symbols apart from the hashes of n-grams."""


@njit(nogil=True, forceinline=True)
def _key(parent: int, symbol: int) -> Any:
    """The key of a node of the trie; ``parent`` is -1 at the root. Never 0."""
    return (np.uint64(parent + 1) << _HIGH) | np.uint64(symbol + 1)


@njit(nogil=True, forceinline=True)
def _slot(keys: Any, key: Any) -> Any:
    """The slot of a key, or the one where it would go."""
    mask = np.uint64(len(keys) - 1)
    at = splitmix64(key) & mask
    while keys[at] != _EMPTY and keys[at] != key:
        at = (at + _ONE) & mask
    return np.int64(at)


@jit_inline()
def _enter(keys: Any, ids: Any, parent: int, symbol: int, n: int, counts: Any, parents: Any, lasts: Any) -> int:
    """Count a node, which gets the id ``n`` if it is new. Returns its id."""
    key = _key(parent, symbol)
    at = _slot(keys, key)
    if keys[at] == _EMPTY:
        keys[at] = key
        ids[at] = n
        parents[n] = parent
        lasts[n] = symbol
    counts[ids[at]] += 1
    return ids[at]


@lazy_jit(INTS, LONGS, INTS, int64, KEYS, INTS, int64, LONGS, INTS, INTS)
def count_ngrams(
    symbols: Any, first: Any, singles: Any, order: int, keys: Any, ids: Any, n: int, counts: Any, parents: Any,
    lasts: Any,
) -> int:  # fmt: skip
    """Count the n-grams of texts up to the length ``order`` and return the number of ids. All tables are large enough.

    Args:
        symbols, first, singles: the texts.
        order: maximum length; 0 counts only ``singles``.
        keys, ids: the open table, whose size is a power of 2.
        n: number of ids that are given already.
        counts, parents, lasts: of each id, its count, the id of its prefix (-1 for none) and its last symbol.
    """
    for i in range(len(first) - 1):
        for start in range(first[i], first[i + 1]):
            node: Any = -1
            for j in range(start, min(start + order, first[i + 1])):
                node = _enter(keys, ids, node, symbols[j], n, counts, parents, lasts)
                n = max(n, node + 1)
    for s in range(len(singles)):
        n = max(n, _enter(keys, ids, -1, singles[s], n, counts, parents, lasts) + 1)
    return n


@lazy_jit(INTS, INTS, int64, KEYS, INTS)
def insert_ngrams(parents: Any, lasts: Any, low: int, keys: Any, ids: Any) -> None:
    """Insert the nodes from the id ``low`` on into a table that is large enough and holds none of them."""
    for i in range(low, len(parents)):
        key = _key(parents[i], lasts[i])
        at = _slot(keys, key)
        keys[at] = key
        ids[at] = i


@jit_inline()
def _look_up(keys: Any, ids: Any, parent: int, symbol: int) -> int:
    key = _key(parent, symbol)
    at = _slot(keys, key)
    return ids[at] if keys[at] == key else -1


@jit_inline()
def _sort_row(row: Any, n: int, distinct: bool) -> int:
    """Sort the first ``n`` entries of a row in place, without repetitions if ``distinct``. Returns how many remain."""
    if n > 40:  # insertion sort is quadratic
        row[:n] = np.sort(row[:n])
    else:
        for a in range(1, n):
            value = row[a]
            b = a
            while b > 0 and row[b - 1] > value:
                row[b] = row[b - 1]
                b -= 1
            row[b] = value
    if not distinct:
        return n
    kept = min(n, 1)
    for a in range(1, n):
        if row[a] != row[kept - 1]:
            row[kept] = row[a]
            kept += 1
    return kept


@lazy_jit(INTS, LONGS, INTS, LONGS, int64, KEYS, INTS, boolean, INTS, LONGS)
def look_up_ngrams(
    symbols: Any, first: Any, singles: Any, single_first: Any, order: int, keys: Any, ids: Any, distinct: bool,
    found: Any, found_first: Any,
) -> int:  # fmt: skip
    """The ids of the listed n-grams of texts, ascending in each row. Symbols below 0 are in no n-gram.

    Args:
        symbols, first, singles, single_first, order, keys, ids: as in :func:`count_ngrams`.
        distinct: whether an id is written once for each row, or as often as it occurs.
        found, found_first: the ids, and where each row begins.

    Returns:
        The number of ids.
    """
    n = 0
    for i in range(len(first) - 1):
        found_first[i] = n
        for start in range(first[i], first[i + 1]):
            node: Any = -1
            for j in range(start, min(start + order, first[i + 1])):
                if symbols[j] < 0:
                    break
                node = _look_up(keys, ids, node, symbols[j])
                if node < 0:
                    break
                found[n] = node
                n += 1
        for s in range(single_first[i], single_first[i + 1]):
            node = _look_up(keys, ids, -1, singles[s]) if singles[s] >= 0 else -1
            if node >= 0:
                found[n] = node
                n += 1
        n = found_first[i] + _sort_row(found[found_first[i] :], n - found_first[i], distinct)
    found_first[len(first) - 1] = n
    return n


@lazy_jit(INTS, LONGS, INTS, LONGS, int64, int64, boolean, INTS, LONGS)
def hash_ngrams(
    symbols: Any, first: Any, singles: Any, single_first: Any, order: int, buckets: int, distinct: bool, found: Any,
    found_first: Any,
) -> int:  # fmt: skip
    """As :func:`look_up_ngrams`, where the id of an n-gram is its hash modulo ``buckets``."""
    n = 0
    for i in range(len(first) - 1):
        found_first[i] = n
        for start in range(first[i], first[i + 1]):
            key = np.uint64(0)
            for j in range(start, min(start + order, first[i + 1])):
                key = splitmix64(key ^ np.uint64(np.uint32(symbols[j])))
                found[n] = np.int32(key % np.uint64(buckets))
                n += 1
        for s in range(single_first[i], single_first[i + 1]):
            key = splitmix64(_SINGLE ^ np.uint64(np.uint32(singles[s])))
            found[n] = np.int32(key % np.uint64(buckets))
            n += 1
        n = found_first[i] + _sort_row(found[found_first[i] :], n - found_first[i], distinct)
    found_first[len(first) - 1] = n
    return n
