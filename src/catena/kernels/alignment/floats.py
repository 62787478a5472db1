"""Numbers of unbounded range, many at a time: ``m × 2^e`` with two floats, where ``e`` is an integer.

Both halves are floats, so that all there is to do (multiply the ``m``, add the ``e``, take the greater ``e``, shift by
powers of two) are vector instructions of any processor, and exact except for rounding of products and sums. Sums
over alignments need then neither logarithms nor a rescue. Zero is m = 0 and e = :data:`NOWHERE`.
"""

from __future__ import annotations

import numpy as np

from catena.kernels.common.floats import (
    BIAS,
    BITS,
    EXP_TERMS,
    FRACTION,
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    bits_of,
    float64_of,
)
from catena.kernels.common.jit import jit_inline

NOWHERE = -1e18
"""The exponent of zero: below all others, and safe to add many times."""

D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, D13 = EXP_TERMS
_WHOLE = 1.5 * 2.0**BITS
"""Added to an integer, it leaves that integer in the last bits."""

WHOLE_BITS, WHOLE_OF_BITS = 0x4330000000000000, 2.0**BITS
"""The bits of 2^52, whose last bits hold an integer."""

_HALF_BITS = (BIAS - 1) << BITS
LEAST = -1022.0


@jit_inline()
def power_of_two(e: float) -> float:
    """2^e for whole e ≤ 0; 0 below 2^-1022."""
    bounded = e if e > LEAST else LEAST
    power = float64_of(bits_of(bounded + (_WHOLE + BIAS)) << BITS)
    return power if e > LEAST else 0.0


@jit_inline()
def mantissa(x: float) -> float:
    """The ``m`` of a positive float, 1/2 ≤ m < 1; what is not positive stays as it is."""
    inside = float64_of((bits_of(x) & FRACTION) | _HALF_BITS)
    return inside if x > 0 else x


@jit_inline()
def get_exponent(x: float, e: float) -> float:
    """The exponent of a positive float x times 2^e, when its ``m`` is taken out; NOWHERE for 0."""
    found = float64_of((bits_of(x) >> BITS) | WHOLE_BITS) - (WHOLE_OF_BITS + (BIAS - 1)) + e
    return found if x > 0 else NOWHERE


@jit_inline({"contract"})
def exp_mantissa(x: float, e: float) -> float:
    """exp(x) / 2^e, where e is the result of :func:`exp_to_exponent`; between 0.7 and 1.42, or 0 for -inf."""
    r = (x - e * LN2_HIGH) - e * LN2_LOW
    p = ((((D13 * r + D12) * r + D11) * r + D10) * r + D9) * r + D8
    p = (((((p * r + D7) * r + D6) * r + D5) * r + D4) * r + D3) * r + D2
    p = (p * r + 1.0) * r + 1.0
    return 0.0 if x == -np.inf else p


@jit_inline()
def exp_to_exponent(x: float) -> float:
    """The integer nearest to x / ln 2; NOWHERE for -inf."""
    return NOWHERE if x == -np.inf else np.floor(x * LOG2_E + 0.5)


@jit_inline()
def scaled_log(m: float, e: float) -> float:
    """The natural logarithm of m × 2^e."""
    return -np.inf if m == 0 else np.log(m) + e * LN2
