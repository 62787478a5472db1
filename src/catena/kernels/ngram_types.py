"""Types of the arrays that the loops of n-gram models take, and how they are compiled: when first called, then kept."""

from __future__ import annotations

from numba import float32, float64, int32, int64, types, uint8, uint64

from catena.kernels.lattice_graph import when_needed

__all__ = ["BYTES", "DOUBLES", "FLOATS", "INTS", "KEYS", "LONGS", "TEXT", "float64", "int64", "when_needed"]

TEXT = types.Array(uint8, 1, "C", readonly=True)
BYTES = types.Array(uint8, 1, "C")
INTS = types.Array(int32, 1, "C")
LONGS = types.Array(int64, 1, "C")
KEYS = types.Array(uint64, 1, "C")
FLOATS = types.Array(float32, 1, "C")
DOUBLES = types.Array(float64, 1, "C")
