"""Bytes by the eight: read as one number, mixed, and searched by their bits. Nothing here is known of text."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import int64, njit, types
from numba.extending import intrinsic

from catena.kernels.common.jit import BYTES, INTS, KEYS, LONGS, TEXT, lazy_jit


def _eight(_: Any, data: Any, at: Any) -> Any:
    """``data[at : at + 8]`` as one number, the first byte its lowest. All eight must exist; this is not checked."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        begin = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(begin, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(address, align=1)

    return types.uint64(data, types.uint64), codegen


def _folded(_: Any, a: Any, b: Any) -> Any:
    """The product of two numbers of 64 bits, its upper half xor its lower half."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.xor(builder.trunc(builder.lshr(product, wide(64)), word), builder.trunc(product, word))

    return types.uint64(types.uint64, types.uint64), codegen


def _zeros(_: Any, x: Any) -> Any:
    """How many of the lowest bits of a number are 0; the number must not be."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), codegen


eight: Any = intrinsic(_eight)
folded: Any = intrinsic(_folded)
zeros: Any = intrinsic(_zeros)
LETTER, BLANK, LINE_END, MAYBE = 0, 1, 2, 3
KINDS = np.zeros(256, np.uint8)
KINDS[[9, 11, 12, 28, 29, 30, 31, 32]] = BLANK
KINDS[[10, 13]] = LINE_END
KINDS[[0xC2, 0xE1, 0xE2, 0xE3]] = MAYBE  # the first bytes of the blanks outside ASCII


@njit(nogil=True, inline="always")
def blank_width(data: Any, at: int) -> int:
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


LOWEST_LETTERS, HIGHEST_BITS = np.uint64(0x2121212121212121), np.uint64(0x8080808080808080)


@njit(nogil=True, inline="always")
def word_end(data: Any, at: Any, kinds: Any) -> Any:
    """The end of the word that continues at this position. Bytes 0x21 to 0xA0 are letters, whatever ``kinds`` says."""
    size = len(data)
    while True:
        while at + 8 <= size:
            x = eight(data, np.uint64(at))
            # The highest bit of each byte that may not be a letter. Where a byte borrowed from the next one, that one's
            # bit means nothing, but the lowest that is set is right.
            others = (x - LOWEST_LETTERS) & HIGHEST_BITS
            if others:
                at += np.int64(zeros(others) >> np.uint64(3))
                break
            at += 8
        if at >= size:
            return size
        kind = kinds[data[at]]
        if kind != LETTER and (kind != MAYBE or blank_width(data, at) > 0):
            return at
        at += 1


LENGTHS, MIXER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@njit(nogil=True, inline="always")
def hash_bytes(data: Any, start: Any, end: Any) -> Any:
    """A 64-bit hash of ``data[start:end]``. Never 0, which marks a free slot of the table."""
    n = end - start
    h = np.uint64(n) * LENGTHS  # so that the zeros that pad the last eight bytes do not count
    while n > 8:
        h = folded(h ^ eight(data, np.uint64(start)), MIXER)
        start += 8
        n -= 8
    return folded(h ^ _last(data, start, n), MIXER) | np.uint64(1)


@njit(nogil=True, inline="always")
def _last(data: Any, at: Any, n: Any) -> Any:
    """``n`` bytes, 0 to 8, as one number with zeros behind them."""
    if at + 8 <= len(data):
        x = eight(data, np.uint64(at))
        return x if n == 8 else x & ((np.uint64(1) << np.uint64(8 * n)) - np.uint64(1))
    x = np.uint64(0)
    for k in range(n):
        x |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return x


@njit(nogil=True, inline="always")
def find_slot(keys: Any, key: Any) -> Any:
    """Where a key is in the table, or may be put. The size of the table is a power of two."""
    mask = len(keys) - 1
    place = np.int64(key >> np.uint64(20)) & mask
    while keys[place] != np.uint64(0) and keys[place] != key:
        place = (place + 1) & mask
    return place


@lazy_jit(TEXT, LONGS, KEYS, INTS, BYTES, LONGS, INTS, BYTES, int64, int64, int64, int64, int64)
def tokenize_lines(
    data: Any, at: Any, keys: Any, values: Any, names: Any, name_ends: Any, out: Any, kinds: Any,
    most: int, new: int, begin: int, end: int, skip_blank: int,
) -> None:  # fmt: skip
    """Write the ids of tokens, each line between ``begin`` and ``end``, until the data ends or the output is full.

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
            width = blank_width(data, i)
            if width:
                i += width
                continue
        if most and types >= most:
            break
        start = i
        i = word_end(data, i, kinds)
        if not is_open and begin >= 0:
            out[n] = begin
            n += 1
        is_open = 1
        key = hash_bytes(data, start, i)
        place = find_slot(keys, key)
        if keys[place] == key:
            out[n] = values[place]
        elif most == 0:
            out[n] = new
        else:
            keys[place] = key
            values[place] = new + types
            behind = name_ends[types - 1] if types else 0
            names[behind : behind + i - start] = data[start:i]
            name_ends[types] = behind + i - start
            out[n] = new + types
            types += 1
        n += 1
    at[0], at[1], at[2], at[3] = i, is_open, n, types


@lazy_jit(TEXT, LONGS, KEYS)
def hash_names(names: Any, name_ends: Any, found: Any) -> None:
    """The hash of each name, as :func:`tokenized` has it."""
    start = 0
    for t in range(len(name_ends)):
        found[t] = hash_bytes(names, start, name_ends[t])
        start = name_ends[t]


@lazy_jit(KEYS, INTS, KEYS, INTS)
def insert_keys(new_keys: Any, new_values: Any, keys: Any, values: Any) -> None:
    """Insert keys with their values into a table of sufficient size; free ones (0) are skipped."""
    for j in range(len(new_keys)):
        if new_keys[j] != np.uint64(0):
            place = find_slot(keys, new_keys[j])
            keys[place] = new_keys[j]
            values[place] = new_values[j]
