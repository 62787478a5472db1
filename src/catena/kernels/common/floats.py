"""Bit patterns of floats, and positive floats of unbounded range, for compiled loops.

A number of unbounded range is a pair (m, e) that stands for m 2ᵉ, with a float m and an integer e. Sums and products of
such pairs are as exact as those of floats, at any magnitude, and need neither ``exp`` nor ``log``. In log space a
number of 10⁴ nats is known to 10⁻¹² only.

Tested in tests/kernels/test_floats.py and tests/kernels/test_wide_numbers.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

LN2 = math.log(2)
LOG2_E = 1 / LN2
# ln 2 in two parts; the first has few bits, so that its product with an integer is exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
EXP_TERMS = tuple(1 / math.factorial(n) for n in range(2, 14))
"""The factors of the powers of r from the second on in exp(r): enough of them for |r| ≤ ln 2 / 2 in 64 bits."""

BITS, BIAS = 52, 1023
"""The number of fraction bits of a float64, and the bias of its exponent."""

FRACTION = (1 << BITS) - 1


def _same_bits(to: Any, of: Any) -> Any:
    """A function for compiled loops that reads the bits of one type as another."""

    def rule(_: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(to))

        return to(of), generate

    return intrinsic(rule)


float32_of = _same_bits(types.float32, types.int32)
float64_of = _same_bits(types.float64, types.int64)
bits_of = _same_bits(types.int64, types.float64)


@njit(nogil=True)
def log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)); exact where either is -inf."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


_LEAST_POWER = -1074
_POWERS = np.ldexp(1.0, np.arange(_LEAST_POWER, 1))
"""2ᵏ at place k - LEAST_POWER."""

ZERO_EXPONENT = -(2**40)
"""The exponent of zero: so low that zero is the least of all numbers, and stays it in any product."""


@njit(nogil=True)
def power(k: int) -> float:
    """2ᵏ for k ≤ 0; 0 where that is too small for a float."""
    return _POWERS[k - _LEAST_POWER] if k > _LEAST_POWER else 0.0


@njit(nogil=True)
def normal(m: float, e: int) -> Any:
    """The same number with 1/2 ≤ m < 1."""
    if m == 0:
        return 0.0, ZERO_EXPONENT
    fraction, shift = math.frexp(m)
    return fraction, e + shift


@njit(nogil=True)
def wide_exp(x: float) -> Any:
    """exp(x) for any x, also -inf."""
    if x == -np.inf:
        return 0.0, ZERO_EXPONENT
    e = int(np.floor(x * LOG2_E + 0.5))
    return normal(np.exp((x - e * LN2_HIGH) - e * LN2_LOW), e)


@njit(nogil=True)
def wide_log(m: float, e: int) -> float:
    """The natural logarithm."""
    return -np.inf if m == 0 else np.log(m) + e * LN2


@njit(nogil=True)
def narrow(m: float, e: int) -> float:
    """The number as a float; 0 or inf where it has no place there."""
    return 0.0 if m == 0 else math.ldexp(m, max(min(e, 3000), -3000))


@njit(nogil=True)
def wide_sum(m1: float, e1: int, m2: float, e2: int) -> Any:
    """(m1, e1) + (m2, e2), not made normal."""
    if e1 >= e2:
        return m1 + m2 * power(e2 - e1), e1
    return m2 + m1 * power(e1 - e2), e2


@njit(nogil=True)
def wide_dot(am: Any, ae: Any, bm: Any, be: Any) -> Any:
    """Σ a[k] b[k], made normal."""
    top = 2 * ZERO_EXPONENT
    for k in range(am.shape[0]):
        both = ae[k] + be[k]
        top = both if both > top else top
    total = 0.0
    for k in range(am.shape[0]):
        total += am[k] * bm[k] * power(ae[k] + be[k] - top)
    return normal(total, top)
