"""Ids of texts: counting, renumbering, blocks, and pairs of neighbors. Knows nothing of files or vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, njit, uint64

from catena.kernels.common.jit import BYTES, INTS, KEYS, LONGS, READ_ONLY_INTS, lazy_jit
from catena.kernels.ngram.cpu_text import find_slot
from catena.kernels.word2vec.cpu_sampling import splitmix64


@lazy_jit(KEYS, KEYS, INTS, LONGS)
def lookup_hashes(hashes: Any, keys: Any, values: Any, found: Any) -> None:
    """The value of each hash in a table, -1 where it has none."""
    for i in range(len(hashes)):
        place = find_slot(keys, hashes[i])
        found[i] = values[place] if keys[place] == hashes[i] else -1


@lazy_jit(BYTES, LONGS, LONGS, BYTES, LONGS)
def taken(names: Any, ends: Any, rows: Any, new_names: Any, new_ends: Any) -> int:
    """Write the words of some rows one after another, and where each ends. Returns how many bytes they have.

    With empty ``new_names`` it only writes where they end.
    """
    n = 0
    for i in range(len(rows)):
        row = rows[i]
        low = ends[row - 1] if row > 0 else 0
        if len(new_names) > 0:
            new_names[n : n + ends[row] - low] = names[low : ends[row]]
        n += ends[row] - low
        new_ends[i] = n
    return n


@lazy_jit(INTS, int64, LONGS)
def count_ids(ids: Any, n: int, counts: Any) -> None:
    """Count the first ``n`` ids; those below 0 are passed over."""
    for i in range(n):
        if ids[i] >= 0:
            counts[ids[i]] += 1


@lazy_jit(INTS, INTS, int64)
def renumber_ids(ids: Any, new: Any, line_end: int) -> int:
    """Replace each id by its new number, in place; those without one (-1) are left out. Returns how many remain."""
    n = 0
    for i in range(len(ids)):
        if ids[i] == line_end:
            ids[n] = line_end
            n += 1
        elif ids[i] >= 0 and new[ids[i]] >= 0:
            ids[n] = new[ids[i]]
            n += 1
    return n


@lazy_jit(READ_ONLY_INTS, int64, int64, LONGS, LONGS, LONGS, boolean)
def cut_pieces(ids: Any, size: int, longest: int, starts: Any, lines: Any, words: Any, only_count: bool) -> int:
    """Cut a text into pieces of ``size`` ids or more that end with a line, or within a line after ``longest`` ids.

    ``starts[p]`` is where piece ``p`` begins, ``lines[p]`` the number of its first line and ``words[p]`` how many words
    lie before it. Returns the number of pieces; the arrays have one entry more, for the end.
    """
    n = 0
    line = 0
    seen = 0
    start = 0
    for i in range(len(ids) + 1):
        full = (i - start >= size and ids[i - 1] < 0) or i - start >= longest
        if i == len(ids) or full:
            if i > start:
                if not only_count:
                    starts[n + 1] = i
                    lines[n + 1] = line
                    words[n + 1] = seen
                n += 1
            start = i
        if i < len(ids):
            if ids[i] < 0:
                line += 1
            else:
                seen += 1
    return n


@njit(nogil=True, forceinline=True)
def _pair_place(keys: Any, key: Any) -> Any:
    mask = len(keys) - 1
    place = np.int64(splitmix64(key) >> np.uint64(20)) & mask
    while keys[place] != np.uint64(0) and keys[place] != key:
        place = (place + 1) & mask
    return place


@lazy_jit(READ_ONLY_INTS, LONGS, KEYS, LONGS)
def counted_pairs(ids: Any, at: Any, keys: Any, counts: Any) -> None:
    """Count neighbors in a line: pair (a, b) has the key (a << 32 | b) + 1.

    Goes on from ``at[0]`` with ``at[1]`` pairs known, and stops when the table is half full, for a larger one.
    """
    i, known = at[0], at[1]
    while i + 1 < len(ids) and 2 * known < len(keys):
        if ids[i] >= 0 and ids[i + 1] >= 0:
            key = ((np.uint64(ids[i]) << np.uint64(32)) | np.uint64(ids[i + 1])) + np.uint64(1)
            place = _pair_place(keys, key)
            if keys[place] == np.uint64(0):
                keys[place] = key
                known += 1
            counts[place] += 1
        i += 1
    at[0], at[1] = i, known


@lazy_jit(KEYS, LONGS, KEYS, LONGS)
def moved_pairs(keys: Any, counts: Any, new_keys: Any, new_counts: Any) -> None:
    """Put all pairs into another table."""
    for i in range(len(keys)):
        if keys[i] != np.uint64(0):
            place = _pair_place(new_keys, keys[i])
            new_keys[place] = keys[i]
            new_counts[place] = counts[i]


@lazy_jit(INTS, KEYS, LONGS)
def joined_pairs(ids: Any, keys: Any, joined: Any) -> int:
    """Write the id ``joined`` of each pair in the table in place of the two, from left to right. Returns how many
    remain."""
    n = 0
    i = 0
    while i < len(ids):
        if i + 1 < len(ids) and ids[i] >= 0 and ids[i + 1] >= 0:
            key = ((uint64(ids[i]) << np.uint64(32)) | uint64(ids[i + 1])) + np.uint64(1)
            place = _pair_place(keys, key)
            if keys[place] == key:
                ids[n] = joined[place]
                n += 1
                i += 2
                continue
        ids[n] = ids[i]
        n += 1
        i += 1
    return n
