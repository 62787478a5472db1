"""Numba types of the arrays that compiled loops take; a number in the name is the number of axes."""

from __future__ import annotations

from numba import boolean, float32, float64, int32, int64, types, uint8, uint64

TEXT = types.Array(uint8, 1, "C", readonly=True)
BYTES = types.Array(uint8, 1, "C")
FLAGS = types.Array(boolean, 1, "C")
READ_ONLY_INTS = types.Array(int32, 1, "C", readonly=True)
INTS, INTS2 = (types.Array(int32, n, "C") for n in (1, 2))
LONGS, LONGS2 = (types.Array(int64, n, "C") for n in (1, 2))
KEYS, KEYS2 = (types.Array(uint64, n, "C") for n in (1, 2))
FLOATS, FLOATS2 = (types.Array(float32, n, "C") for n in (1, 2))
DOUBLES, DOUBLES2, DOUBLES3, DOUBLES4 = (types.Array(float64, n, "C") for n in (1, 2, 3, 4))
