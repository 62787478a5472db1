"""What compiled loops know of a single float: its bits, ln 2 in two parts, the terms of exp, a sum of logarithms."""

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
