"""Wide numbers for compiled loops: ``m × 2^e`` with a float ``m`` in [1/2, 1) and an integer ``e`` beside it.

Their range has no end, so that sums over trees need neither logarithms nor a rescue: a product multiplies the
``m`` and adds the ``e``, and a sum shifts its terms by powers of two, which is exact and done by vector
instructions. Zero is m = 0 and e = :data:`NOWHERE`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.common.floats import BIAS, BITS, FRACTION, LN2, LN2_HIGH, LN2_LOW, LOG2_E, bits_of, float64_of

NOWHERE = -(1 << 50)
"""The exponent of zero: below all others, and two of them can be added."""


@njit(nogil=True)
def power_of_two(e: Any) -> Any:
    """2^e for e ≤ 1023; 0 where it would be a denormal number."""
    biased = e + BIAS
    biased = biased if biased > 0 else 0
    return float64_of(np.int64(biased) << BITS)


@njit(nogil=True)
def mantissa(x: Any) -> Any:
    """The ``m`` of a positive normal float; 0 for 0."""
    inside = float64_of((bits_of(x) & FRACTION) | ((BIAS - 1) << BITS))
    return inside if x > 0 else 0.0


@njit(nogil=True)
def get_exponent(x: Any, more: Any) -> Any:
    """The ``e`` of a positive normal float times 2^more; NOWHERE for 0."""
    found = (bits_of(x) >> BITS) - (BIAS - 1) + more
    return found if x > 0 else NOWHERE


@njit(nogil=True)
def powers_of_two(x: Any, rest: Any) -> None:
    """exp(x) = 2^n exp(rest), 0 ≤ rest < ln 2: the n are left in ``x``, and -inf where it was."""
    for i in range(x.shape[0]):
        n = np.floor(x[i] * LOG2_E)
        kept = n if n > -np.inf else 0.0
        rest[i] = (x[i] - kept * LN2_HIGH) - kept * LN2_LOW
        x[i] = n


@njit(nogil=True)
def to_log(m: float, e: int) -> float:
    """The natural logarithm of m × 2^e."""
    return np.log(m) + e * LN2 if m > 0 else -np.inf
