"""Positive numbers of unbounded range, for compiled loops whose values exceed the range of floats.

A number is a pair (m, e) that stands for m 2ᵉ, with a float m and an integer e. Sums and products of such
pairs are as exact as those of floats, at any magnitude, and need neither ``exp`` nor ``log``: nothing is lost
as it is in log space, where a number of 10⁴ nats is known to 10⁻¹² only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from catena.kernels.floats import LN2, LN2_HIGH, LN2_LOW, LOG2_E

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
