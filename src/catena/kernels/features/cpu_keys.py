"""Features of tokens as 64-bit keys, and a table that numbers keys. No Python object is touched token by token.

A feature is a template filled in at a token. Its key is a mix of a number for the template and of one for each value
that fills it, so that the same feature has the same key in every text and on every machine. Two features of a million
have equal keys with a probability of 1 in forty million such sets.

The table is open: a key stands at its place or at the next free one. ``ids`` are numbered as keys are first met.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.jit import INTS, INTS2, KEYS, KEYS2, LONGS, lazy_jit
from catena.kernels.word2vec.cpu_sampling import GOLDEN, splitmix64

_NOTHING = np.uint64(0)
"""The value of what is not there, such as the four last letters of a short word: a feature with it is left out."""

_ONE = np.uint64(1)
BEFORE, BEHIND = np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F)
"""What the values of places before the first token and behind the last are made of."""


@njit(nogil=True, forceinline=True)
def _value_at(values: Any, function: int, low: int, high: int, at: int) -> Any:
    if at < low:
        return splitmix64(BEFORE + np.uint64(low - at) * GOLDEN)
    if at >= high:
        return splitmix64(BEHIND + np.uint64(at - high + 1) * GOLDEN)
    return values[function, at]


@lazy_jit(KEYS2, LONGS, KEYS, LONGS, LONGS, LONGS, KEYS2)
def fill_keys(
    values: Any, first: Any, seeds: Any, atom_first: Any, atom_function: Any, atom_offset: Any, keys: Any
) -> None:
    """``keys[i, j]`` is the key of template ``j`` at token ``i``, or ``_NOTHING``.

    Args:
        values: ``values[f, i]`` is the number of what function ``f`` gives for token ``i``.
        first: sentence ``s`` is the tokens ``first[s] … first[s + 1] - 1``.
        seeds: a number for each template; its atoms are ``atom_first[j] … atom_first[j + 1] - 1``.
        atom_function, atom_offset: which value an atom is, and how far from the token.
    """
    for s in range(len(first) - 1):
        low, high = first[s], first[s + 1]
        for i in range(low, high):
            for j in range(len(seeds)):
                key = seeds[j]
                for a in range(atom_first[j], atom_first[j + 1]):
                    value = _value_at(values, atom_function[a], low, high, i + atom_offset[a])
                    if value == _NOTHING:
                        key = _NOTHING
                        break
                    key = max(splitmix64(key ^ value), _ONE)
                keys[i, j] = key


@njit(nogil=True, forceinline=True)
def _place(table: Any, key: Any) -> Any:
    """Where a key stands, or where it would go."""
    mask = np.uint64(len(table) - 1)
    at = splitmix64(key) & mask
    while table[at] != _NOTHING and table[at] != key:
        at = (at + _ONE) & mask
    return np.int64(at)


@lazy_jit(KEYS2, KEYS, INTS, int64, LONGS, LONGS, INTS2)
def enter_keys(keys: Any, table: Any, table_ids: Any, n: int, counts: Any, places: Any, ids: Any) -> int:
    """Number new keys from ``n`` on, count all of them, and return how many there are. The table is large enough.

    ``places[id]`` is set to the entry of ``keys`` where a key was first met, counted row by row.
    """
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            key = keys[i, j]
            ids[i, j] = -1
            if key == _NOTHING:
                continue
            at = _place(table, key)
            if table[at] == _NOTHING:
                table[at] = key
                table_ids[at] = n
                places[n] = i * keys.shape[1] + j
                n += 1
            ids[i, j] = table_ids[at]
            counts[table_ids[at]] += 1
    return n


@lazy_jit(KEYS2, KEYS, INTS, INTS2)
def look_up_keys(keys: Any, table: Any, table_ids: Any, ids: Any) -> None:
    """The ids of keys, -1 for those that the table does not hold."""
    for i in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            ids[i, j] = -1
            if keys[i, j] != _NOTHING:
                at = _place(table, keys[i, j])
                if table[at] != _NOTHING:
                    ids[i, j] = table_ids[at]


@lazy_jit(KEYS, INTS, KEYS, INTS)
def insert_keys(keys: Any, ids: Any, table: Any, table_ids: Any) -> None:
    """Put different keys and their ids into an empty table that is large enough; ``_NOTHING`` is left out."""
    for i in range(len(keys)):
        if keys[i] != _NOTHING:
            at = _place(table, keys[i])
            table[at] = keys[i]
            table_ids[at] = ids[i]


@lazy_jit(INTS2, INTS, LONGS, INTS)
def packed_ids(ids: Any, renumber: Any, first: Any, packed: Any) -> int:
    """The ids of each row that are kept, one after another: row ``i`` is ``packed[first[i] : first[i + 1]]``.

    ``renumber[id]`` is the new id, or -1. Returns how many there are.
    """
    n = 0
    for i in range(ids.shape[0]):
        first[i] = n
        for j in range(ids.shape[1]):
            if ids[i, j] >= 0 and renumber[ids[i, j]] >= 0:
                packed[n] = renumber[ids[i, j]]
                n += 1
    first[ids.shape[0]] = n
    return n
