r"""Loops over the characters of words: deletes, edit distances and weights of misspellings, on the CPU.

A *delete* of a word is what is left of it without some of its characters. Two words within k edits (an insertion,
deletion, substitution, or transposition of adjacent characters) have a delete of at most k characters in common, so a
table of the hashes of all deletes finds every word within k edits of a query. Words with the same hash by accident are
found too, so distances are computed afterwards. Tested in tests/kernels/spelling/test_cpu.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint64

from catena.kernels.common.jit import DOUBLES, DOUBLES3, INTS, KEYS, LONGS, jit_inline, lazy_jit

_SEED = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)

INSERT, DELETE, SUBSTITUTE, TRANSPOSE = range(4)
"""The tables of :func:`misspelling_weights`, in the order of their first axis."""


@jit_inline()
def _hash_without(codes: Any, low: int, high: int, first: int, second: int) -> Any:
    """The hash of ``codes[low:high]`` without the characters at ``first`` and ``second``."""
    key = _SEED
    for i in range(low, high):
        if i != first and i != second:
            key = (key ^ np.uint64(codes[i])) * _MULTIPLIER
            key ^= key >> _SHIFT
    return key


@lazy_jit(INTS, LONGS, int64, KEYS, INTS)
def fill_deletes(codes: Any, starts: Any, max_edits: int, keys: Any, owners: Any) -> int:
    """Write the hash of every delete of every word, and the index of the word. Returns their number.

    Args:
        codes: the characters of all words; word ``w`` is ``codes[starts[w]:starts[w + 1]]``.
        starts: where words start, and the end of the last.
        max_edits: the largest number of deleted characters, 0, 1 or 2.
        keys: the hashes, with capacity for 1 + n + n (n - 1) / 2 of a word of n characters.
        owners: the words that the hashes belong to.
    """
    n = 0
    for w in range(len(starts) - 1):
        low, high = starts[w], starts[w + 1]
        keys[n] = _hash_without(codes, low, high, -1, -1)
        owners[n] = w
        n += 1
        if max_edits < 1:
            continue
        for i in range(low, high):
            if i > low and codes[i] == codes[i - 1]:
                continue  # deleting either of two equal neighbors leaves the same
            keys[n] = _hash_without(codes, low, high, i, -1)
            owners[n] = w
            n += 1
            if max_edits < 2:
                continue
            for j in range(i + 1, high):
                keys[n] = _hash_without(codes, low, high, i, j)
                owners[n] = w
                n += 1
    return n


@lazy_jit(KEYS, KEYS, INTS, LONGS, INTS, int64, INTS)
def find_owners(queries: Any, keys: Any, owners: Any, buckets: Any, seen: Any, stamp: int, found: Any) -> int:
    """Write the words that have one of some hashes, each once. Returns their number.

    Args:
        queries: the hashes to look up.
        keys: all hashes, in ascending order.
        owners: the word of each hash.
        buckets: hashes with the highest bits b are at ``keys[buckets[b]:buckets[b + 1]]``.
        seen: for each word, the stamp of the last call that returned it.
        stamp: an integer that no earlier call had.
        found: the words, with capacity for all.
    """
    bits = uint64(64)
    size = len(buckets) - 1
    while size > 1:
        size //= 2
        bits -= uint64(1)
    n = 0
    for query in queries:
        bucket = int64(query >> bits) if len(buckets) > 2 else int64(0)
        for at in range(buckets[bucket], buckets[bucket + 1]):
            if keys[at] == query and seen[owners[at]] != stamp:
                seen[owners[at]] = stamp
                found[n] = owners[at]
                n += 1
    return n


@lazy_jit(INTS, INTS, LONGS, INTS, int64, LONGS)
def edit_distances(query: Any, codes: Any, starts: Any, words: Any, limit: int, out: Any) -> None:
    """Write the edit distance from a query to each of some words, with transpositions as one edit.

    No character is edited twice (optimal string alignment). A distance above ``limit`` is written as some number above
    it. ``words`` are indices into ``starts``.
    """
    m = len(query)
    rows = np.empty((3, m + limit + 1), np.int64)
    for k in range(len(words)):
        low = starts[words[k]]
        n = starts[words[k] + 1] - low
        if abs(m - n) > limit:
            out[k] = limit + 1
            continue
        for j in range(n + 1):
            rows[0, j] = j
        for i in range(1, m + 1):
            row, above, second = rows[i % 3], rows[(i - 1) % 3], rows[(i - 2) % 3]
            row[0] = i
            for j in range(1, n + 1):
                best = above[j - 1] + (query[i - 1] != codes[low + j - 1])
                best = min(best, above[j] + 1, row[j - 1] + 1)
                if i > 1 and j > 1 and query[i - 1] == codes[low + j - 2] and query[i - 2] == codes[low + j - 1]:
                    best = min(best, second[j - 2] + 1)
                row[j] = best
        out[k] = rows[m % 3, n]


@lazy_jit(INTS, LONGS, INTS, LONGS, LONGS, INTS, DOUBLES3, DOUBLES)
def misspelling_weights(
    query: Any, query_classes: Any, codes: Any, classes: Any, starts: Any, words: Any, tables: Any, out: Any
) -> None:
    r"""Write the weight of a query as a misspelling of each of some words: the sum over all edit scripts.

    .. math::  f_{ij} = f_{i-1,j-1}\,s(x_j, o_i) + f_{i-1,j}\,\iota(x_j, o_i) + f_{i,j-1}\,\delta(x_{j-1}, x_j)
               + f_{i-2,j-2}\,\tau(x_{j-1}, x_j)\,[o_{i-1} o_i = x_j x_{j-1}]

    A copied character has weight 1. Tables are indexed by classes of characters; class 0 is before the first character
    of a word.

    Args:
        query: the characters of the observed word o.
        query_classes: the class of each.
        codes: the characters of all true words x.
        classes: the class of each.
        starts: where words start.
        words: the indices of the true words.
        tables: ``[INSERT, x, o]`` weight of inserting o after x, ``[DELETE, w, x]`` of deleting x after w,
            ``[SUBSTITUTE, x, o]`` of writing o for x, ``[TRANSPOSE, w, x]`` of writing x w for w x.
        out: the weights.
    """
    m = len(query)
    for k in range(len(words)):
        low = starts[words[k]]
        n = starts[words[k] + 1] - low
        rows = np.zeros((3, n + 1))
        for i in range(m + 1):
            row, above, second = rows[i % 3], rows[(i - 1) % 3], rows[(i - 2) % 3]
            for j in range(n + 1):
                total = 1.0 if i == 0 and j == 0 else 0.0
                x = classes[low + j - 1] if j > 0 else 0
                before = classes[low + j - 2] if j > 1 else 0
                if i > 0:
                    total += above[j] * tables[0, x, query_classes[i - 1]]
                if j > 0:
                    total += row[j - 1] * tables[1, before, x]
                if i > 0 and j > 0:
                    same = query[i - 1] == codes[low + j - 1]
                    total += above[j - 1] * (1.0 if same else tables[2, x, query_classes[i - 1]])
                if i > 1 and j > 1 and query[i - 1] == codes[low + j - 2] and query[i - 2] == codes[low + j - 1]:
                    total += second[j - 2] * (0.0 if query[i - 1] == query[i - 2] else tables[3, before, x])
                row[j] = total
        out[k] = rows[m % 3, n]
