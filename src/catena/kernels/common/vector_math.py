"""Vectorized exponentials, maxima and sums for compiled loops.

Numba calls the C library for each ``np.exp`` unless Intel's vector library is installed. :func:`exp_less` is plain
arithmetic that the compiler vectorizes: with n = round(x / ln 2), exp(x) = 2ⁿ exp(x - n ln 2), where the second factor
is a short polynomial and the first is written into the bits of a float. Its error is at most one unit in the last
place; -inf gives 0 and nan stays nan.

:func:`dot` and :func:`add_times` are single-threaded. Those of numpy use many threads, which wait for each other on a
busy machine, and their results depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, types
from numba.extending import overload

from catena.kernels.common.floats import EXP_TERMS, LN2, LN2_HIGH, LN2_LOW, LOG2_E, float32_of, float64_of
from catena.kernels.common.jit import DOUBLES, MAXIMA, SUMS, jit_function, jit_inline, lazy_jit

# ln 2 in two parts; the first has so few bits that n times it is exact.
LN2_HIGH_32, LN2_LOW_32 = np.float32(0.693359375), np.float32(LN2 - 0.693359375)
LEAST_32, LEAST_64 = np.float32(-87.0), -708.0
"""Below these the result is taken as 0; it would be a denormal number soon after."""

TERMS_32 = S2, S3, S4, S5, S6, S7 = tuple(np.float32(term) for term in EXP_TERMS[:6])
D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13 = EXP_TERMS


def exp_less(x: Any, shift: Any, result: Any) -> None:
    """result[i] = exp(x[i] - shift) for x - shift ≤ 0, or little above. Callable from compiled loops only."""
    raise NotImplementedError


@jit_inline({"contract"})
def exp_32(y: Any) -> Any:
    """exp(y) in single precision for -87 ≤ y ≤ 88; nan stays nan."""
    n = np.floor(y * np.float32(LOG2_E) + np.float32(0.5))
    r = (y - n * LN2_HIGH_32) - n * LN2_LOW_32
    p = ((((S7 * r + S6) * r + S5) * r + S4) * r + S3) * r + S2
    p = (p * r + np.float32(1)) * r + np.float32(1)
    return p * float32_of(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


def _exp_less_32(x: Any, shift: Any, result: Any) -> None:
    for i in range(result.shape[0]):
        given = x[i] - shift
        power = exp_32(given if given > LEAST_32 else LEAST_32)
        result[i] = power if given > LEAST_32 else (np.float32(0) if given <= LEAST_32 else given)


def _exp_less_64(x: Any, shift: Any, result: Any) -> None:
    for i in range(result.shape[0]):
        given = x[i] - shift
        y = given if given > LEAST_64 else LEAST_64
        n = np.floor(y * LOG2_E + 0.5)
        r = (y - n * LN2_HIGH) - n * LN2_LOW
        p = ((((D13 * r + D12) * r + D11) * r + D10) * r + D9) * r + D8
        p = (((((p * r + D7) * r + D6) * r + D5) * r + D4) * r + D3) * r + D2
        p = (p * r + 1.0) * r + 1.0
        power = float64_of((np.int64(n) + np.int64(1023)) << np.int64(52))
        result[i] = p * power if given > LEAST_64 else (0.0 if given <= LEAST_64 else given)


@overload(exp_less, jit_options={"fastmath": {"contract"}})
def _choose_exp_less(x: Any, shift: Any, result: Any) -> Any:
    return _exp_less_32 if result.dtype == types.float32 else _exp_less_64


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


@lazy_jit(DOUBLES)
def are_below_inf(x: Any) -> bool:
    """Whether no entry is nan or +inf."""
    wrong = 0
    for i in range(len(x)):
        wrong += not x[i] < np.inf
    return wrong == 0


@jit_inline(MAXIMA)
def vector_max(v: Any) -> Any:
    """The maximum."""
    top = v[0]
    for i in range(1, v.shape[0]):
        top = v[i] if v[i] > top else top
    return top


# The functions below are given whole arrays and say which row they mean. A view of a row would cost two atomic
# operations on its reference count, which is as much as the arithmetic of a short row.
@jit_inline(MAXIMA)
def max_entry(x: Any, i: int, j: int) -> Any:
    """The greatest of ``x[i, j]``."""
    top = x[i, j, 0]
    for q in range(1, x.shape[2]):
        top = x[i, j, q] if x[i, j, q] > top else top
    return top


# --- in log space -------------------------------------------------------------------------------------------
@jit_inline()
def log_sum(v: Any, scratch: Any) -> float:
    """log Σ exp(v)."""
    top = vector_max(v)
    if not top > -np.inf:
        return top
    exp_less(v, top, scratch)
    total = 0.0
    for value in scratch:
        total += value
    return top + np.log(total)
