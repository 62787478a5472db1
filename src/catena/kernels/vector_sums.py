"""Single-threaded sums over long vectors.

The libraries of numpy use many threads, which wait for each other on a busy machine, and their sums depend on the
number of threads.
"""

from __future__ import annotations

from typing import Any

from numba import float64

from catena.kernels.array_types import DOUBLES
from catena.kernels.jit import SUMS, jit_function, lazy_jit


@jit_function(SUMS)
def _dot(a: Any, b: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@jit_function(SUMS)
def _add(y: Any, times: float, x: Any) -> None:
    for i in range(len(y)):
        y[i] += times * x[i]


@lazy_jit(DOUBLES, DOUBLES)
def dot(a: Any, b: Any) -> float:
    """Σ a[i] b[i]."""
    return _dot(a, b)


@lazy_jit(DOUBLES, float64, DOUBLES)
def add_times(y: Any, times: float, x: Any) -> None:
    """``y += times * x``, in place."""
    _add(y, times, x)
