"""Lines of ARPA files, from bytes to numbers and back, and a checksum of large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.jit import BYTES, DOUBLES, INTS, KEYS, LONGS, TEXT, lazy_jit
from catena.kernels.ngram.cpu_text import LETTER, LINE_END, find_slot, hash_bytes

FINE, NO_NUMBER, FEW_WORDS, UNKNOWN_WORD, NO_WEIGHT, TOO_LONG, POSITIVE = range(7)
"""What may be wrong with a line."""

SPACE, TAB, BACKSLASH = 32, 9, 92
TENTHS = 10.0 ** -np.arange(0, 30)


@njit(nogil=True)
def _number(data: Any, i: int, tenths: Any) -> tuple[int, float]:
    """(place behind it, value) of the number that begins here; the place is -1 where there is none."""
    sign = 1.0
    begin = i
    size = len(data)
    if i < size and (data[i] == 45 or data[i] == 43):
        sign = -1.0 if data[i] == 45 else 1.0
        i += 1
    if i + 2 < size and data[i] | 32 == 105 and data[i + 1] | 32 == 110 and data[i + 2] | 32 == 102:
        return i + 3, sign * np.inf
    value = 0.0
    digits = 0
    places = 0
    seen = False
    while i < size and (48 <= data[i] <= 57 or (data[i] == 46 and not seen)):
        if data[i] == 46:
            seen = True
        else:
            digits += 1
            if places < 17 or not seen:
                value = 10.0 * value + (data[i] - 48)
                places += seen
        i += 1
    if digits == 0:
        return -1, 0.0
    value *= tenths[places]
    if i + 1 < size and data[i] | 32 == 101:
        negative = data[i + 1] == 45
        j = i + 2 if negative or data[i + 1] == 43 else i + 1
        power = 0
        if j < size and 48 <= data[j] <= 57:
            while j < size and 48 <= data[j] <= 57:
                power = min(10 * power + (data[j] - 48), 400)
                j += 1
            value *= 10.0 ** (-power if negative else power)
            i = j
    return (i, sign * value) if i > begin else (-1, 0.0)


@njit(nogil=True, inline="always")
def _past_blanks(data: Any, i: int) -> int:
    while i < len(data) and (data[i] == SPACE or data[i] == TAB):
        i += 1
    return i


@lazy_jit(TEXT, LONGS, int64, KEYS, INTS, BYTES, DOUBLES, INTS, DOUBLES, DOUBLES)
def read_lines(
    data: Any, at: Any, k: int, keys: Any, values: Any, kinds: Any, tenths: Any, rows: Any, probs: Any, backoffs: Any
) -> None:
    """Read lines ``log10(p) w₁ … wₖ [log10(backoff)]`` until one that begins with a backslash, or the buffer is full.

    Args:
        at: where the loop is, and is left: [byte, rows read, lines read, what is wrong, capacity in rows].
    """
    i, row, lines = at[0], at[1], at[2]
    size = len(data)
    at[3] = FINE
    while i < size and row < at[4]:
        begin = i
        i = _past_blanks(data, i)
        if i < size and data[i] == BACKSLASH:
            i = begin
            break
        if i < size and kinds[data[i]] != LINE_END:
            i, probs[row] = _number(data, i, tenths)
            if i < 0 or (i < size and data[i] != SPACE and data[i] != TAB):
                at[3] = NO_NUMBER
            elif probs[row] > 0.0:
                at[3] = POSITIVE
            for word in range(k):
                if at[3] != FINE:
                    break
                i = _past_blanks(data, i)
                start = i
                while i < size and (kinds[data[i]] == LETTER or kinds[data[i]] == 3):
                    i += 1
                if i == start:
                    at[3] = FEW_WORDS
                    break
                key = hash_bytes(data, start, i)
                place = find_slot(keys, key)
                if keys[place] != key:
                    at[3] = UNKNOWN_WORD
                    break
                rows[row * k + word] = values[place]
            backoffs[row] = 0.0
            if at[3] == FINE:
                i = _past_blanks(data, i)
                if i < size and kinds[data[i]] != LINE_END:
                    i, backoffs[row] = _number(data, i, tenths)
                    if i < 0:
                        at[3] = NO_WEIGHT
                    else:
                        i = _past_blanks(data, i)
                        if i < size and kinds[data[i]] != LINE_END:
                            at[3] = TOO_LONG
            if at[3] != FINE:
                i = begin
                break
            row += 1
        if i < size and data[i] == 13 and i + 1 < size and data[i + 1] == 10:
            i += 1
        i += 1
        lines += 1
    at[0], at[1], at[2] = min(i, size), row, lines


@njit(nogil=True, inline="always")
def _write_number(out: Any, n: int, value: float) -> int:
    """Seven places behind the point. Returns where the next byte goes."""
    if value < -99.0:
        value = -99.0
    scaled = np.int64(np.round(abs(value) * 1e7))
    if value < 0.0 and scaled > 0:
        out[n] = 45
        n += 1
    whole = scaled // 10_000_000
    rest = scaled % 10_000_000
    digits = 1
    while whole >= 10**digits:
        digits += 1
    for d in range(digits - 1, -1, -1):
        out[n] = 48 + (whole // 10**d) % 10
        n += 1
    if rest:
        out[n] = 46
        n += 1
        for d in range(6, -1, -1):
            out[n] = 48 + (rest // 10**d) % 10
            n += 1
    return n


@lazy_jit(INTS, int64, DOUBLES, DOUBLES, int64, BYTES, LONGS, BYTES)
def written_lines(
    rows: Any, k: int, probs: Any, backoffs: Any, with_backoffs: int, names: Any, name_ends: Any, out: Any
) -> int:
    """The opposite of :func:`read_lines`. Returns how many bytes were written."""
    n = 0
    for row in range(len(probs)):
        n = _write_number(out, n, probs[row])
        for j in range(k):
            out[n] = TAB if j == 0 else SPACE
            n += 1
            word = rows[row * k + j]
            begin = name_ends[word - 1] if word else 0
            for i in range(begin, name_ends[word]):
                out[n] = names[i]
                n += 1
        if with_backoffs:
            out[n] = TAB
            n = _write_number(out, n + 1, backoffs[row])
        out[n] = 10
        n += 1
    return n


@lazy_jit(KEYS, LONGS)
def checksum_lanes(words: Any, found: Any) -> None:
    """A checksum in four lanes, as fast as memory is read. ``found[0]`` is set to it."""
    a = np.uint64(1)
    b = np.uint64(2)
    c = np.uint64(3)
    d = np.uint64(4)
    by = np.uint64(0x9E3779B97F4A7C15)
    n = len(words) // 4 * 4
    for i in range(0, n, 4):
        a = (a ^ words[i]) * by
        b = (b ^ words[i + 1]) * by
        c = (c ^ words[i + 2]) * by
        d = (d ^ words[i + 3]) * by
        a ^= a >> np.uint64(29)
        b ^= b >> np.uint64(29)
        c ^= c >> np.uint64(29)
        d ^= d >> np.uint64(29)
    for i in range(n, len(words)):
        a = (a ^ words[i]) * by
        a ^= a >> np.uint64(29)
    a = (a ^ b) * by
    a = (a ^ c ^ (a >> np.uint64(31))) * by
    a = (a ^ d ^ (a >> np.uint64(31))) * by
    found[0] = np.int64(a >> np.uint64(1))
