"""Tokens between blanks, from bytes to ids, without a Python object for any of them.

Blanks are those of ``str.split``; a line ends at LF, CRLF or CR. A token is known by 64 bits of hash: two of a
million types share theirs once in 20 million vocabularies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.ngram_types import BYTES, INTS, KEYS, LONGS, TEXT, int64, when_needed

LETTER, BLANK, LINE_END, MAYBE = 0, 1, 2, 3

KINDS = np.zeros(256, np.uint8)
KINDS[[9, 11, 12, 28, 29, 30, 31, 32]] = BLANK
KINDS[[10, 13]] = LINE_END
KINDS[[0xC2, 0xE1, 0xE2, 0xE3]] = MAYBE  # the first bytes of the blanks outside ASCII


@njit(nogil=True, inline="always")
def _blank_width(data: Any, at: int) -> int:
    """How many bytes the blank at this place takes, whose first byte may begin one; 0 if it is none."""
    left = len(data) - at
    if data[at] == 0xC2:
        return 2 if left > 1 and (data[at + 1] == 0x85 or data[at + 1] == 0xA0) else 0
    if left < 3:
        return 0
    first, second, third = data[at], data[at + 1], data[at + 2]
    if first == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x80:
        return 3 if (0x80 <= third <= 0x8A) or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
    return 3 if second == 0x81 and third == 0x9F else 0


@njit(nogil=True, inline="always")
def finished(h: Any) -> Any:
    h ^= h >> np.uint64(32)
    h *= np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    return h | np.uint64(1)  # 0 marks a free place of the table


@njit(nogil=True, inline="always")
def place_of(keys: Any, key: Any) -> Any:
    """Where a key is in the table, or may be put. The size of the table is a power of two."""
    mask = len(keys) - 1
    place = np.int64(key >> np.uint64(20)) & mask
    while keys[place] != np.uint64(0) and keys[place] != key:
        place = (place + 1) & mask
    return place


OFFSET, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@when_needed(TEXT, LONGS, KEYS, INTS, BYTES, LONGS, INTS, BYTES, int64, int64, int64, int64, int64)
def tokenised(
    data: Any, at: Any, keys: Any, values: Any, names: Any, name_ends: Any, out: Any, kinds: Any,
    most: int, new: int, begin: int, end: int, skip_blank: int,
) -> None:  # fmt: skip
    """Write the ids of tokens, each line between ``begin`` and ``end``, until the data or the room is used up.

    Args:
        at: where the loop is, and is left: [byte, line is open, tokens in ``out``, types known].
        keys, values: the table of known tokens: hash, id.
        names, name_ends: the bytes of the types that were added, one after another, and where each ends.
        most: the number of types at which to stop; 0 adds none.
        new: the id of the first type that is added; of all unknown tokens where none is.
        begin: the id before each line; none is written where this is below 0.
        skip_blank: 1 leaves out lines without a token.
    """
    i, is_open, n, types = at[0], at[1], at[2], at[3]
    size = len(data)
    while i < size:
        kind = kinds[data[i]]
        if kind == LINE_END:
            if data[i] == 13 and i + 1 < size and data[i + 1] == 10:
                i += 1
            i += 1
            if is_open or not skip_blank:
                if not is_open and begin >= 0:
                    out[n] = begin
                    n += 1
                out[n] = end
                n += 1
            is_open = 0
            continue
        if kind == BLANK:
            i += 1
            continue
        if kind == MAYBE:
            width = _blank_width(data, i)
            if width:
                i += width
                continue
        if most and types >= most:
            break
        start, h = i, OFFSET
        while i < size:
            kind = kinds[data[i]]
            if kind != LETTER and (kind != MAYBE or _blank_width(data, i) > 0):
                break
            h = (h ^ np.uint64(data[i])) * PRIME
            i += 1
        if not is_open and begin >= 0:
            out[n] = begin
            n += 1
        is_open = 1
        key = finished(h)
        place = place_of(keys, key)
        if keys[place] == key:
            out[n] = values[place]
        elif most == 0:
            out[n] = new
        else:
            keys[place], values[place] = key, new + types
            behind = name_ends[types - 1] if types else 0
            names[behind : behind + i - start] = data[start:i]
            name_ends[types] = behind + i - start
            out[n] = new + types
            types += 1
        n += 1
    at[0], at[1], at[2], at[3] = i, is_open, n, types


@when_needed(TEXT, LONGS, KEYS)
def hashed(names: Any, name_ends: Any, found: Any) -> None:
    """The hash of each name, as :func:`tokenised` has it."""
    start = 0
    for t in range(len(name_ends)):
        h = OFFSET
        for i in range(start, name_ends[t]):
            h = (h ^ np.uint64(names[i])) * PRIME
        found[t] = finished(h)
        start = name_ends[t]


@when_needed(KEYS, INTS, KEYS, INTS)
def entered(new_keys: Any, new_values: Any, keys: Any, values: Any) -> None:
    """Put keys with their values into a table, which must have room; free ones (0) are passed over."""
    for j in range(len(new_keys)):
        if new_keys[j] != np.uint64(0):
            place = place_of(keys, new_keys[j])
            keys[place], values[place] = new_keys[j], new_values[j]
