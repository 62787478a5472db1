"""Numbers without end to their range, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from catena.kernels.common.floats import ZERO_EXPONENT, narrow, normal, power, wide_dot, wide_exp, wide_log, wide_sum


def exactly(m: float, e: int) -> Fraction:
    return Fraction(0) if m == 0 else Fraction(m) * Fraction(2) ** e


def close(found: Fraction, expected: Fraction) -> bool:
    return abs(found - expected) <= expected * Fraction(1, 2**50)


@pytest.mark.parametrize("x", [-math.inf, -3e4, -800.5, -1.0, 0.0, 1e-3, 700.0, 2.5e4])
def test_exponentials_and_their_logs_at_any_size(x: float) -> None:
    m, e = wide_exp(x)
    if x == -math.inf:
        assert (m, e) == (0.0, ZERO_EXPONENT)
        assert wide_log(m, e) == x
        return
    assert 0.5 <= m < 1
    with mpmath.workdps(40):
        assert abs(mpmath.mpf(m) * mpmath.mpf(2) ** e / mpmath.exp(x) - 1) < 1e-15 * max(1, abs(x))
    assert wide_log(m, e) == pytest.approx(x, abs=1e-15 * max(1, abs(x)))


def test_sums_keep_what_is_far_smaller_and_zero_changes_nothing() -> None:
    numbers = [(0.7, 5000), (0.9, 4990), (0.6, -5000), (0.0, ZERO_EXPONENT), (0.55, 4999), (3.0, 2), (0.5, 0)]
    for a in numbers:
        for b in numbers:
            assert close(exactly(*wide_sum(*a, *b)), exactly(*a) + exactly(*b))
    assert wide_sum(0.0, ZERO_EXPONENT, 0.0, ZERO_EXPONENT)[0] == 0


def test_dot_products_over_thousands_of_orders_of_magnitude() -> None:
    rng = np.random.default_rng(3)
    am, bm = rng.uniform(0.5, 1, 20), rng.uniform(0.5, 1, 20)
    ae, be = rng.integers(-4000, 4000, 20), rng.integers(-4000, 4000, 20)
    am[3], ae[3] = 0.0, ZERO_EXPONENT
    expected = sum((exactly(am[k], int(ae[k])) * exactly(bm[k], int(be[k])) for k in range(20)), Fraction(0))
    m, e = wide_dot(am, ae, bm, be)
    assert close(exactly(m, e), expected)
    assert 0.5 <= m < 1
    nothing = np.zeros(4), np.full(4, ZERO_EXPONENT)
    assert wide_dot(*nothing, *nothing) == (0.0, ZERO_EXPONENT)
    assert wide_dot(am[:0], ae[:0], bm[:0], be[:0]) == (0.0, ZERO_EXPONENT)


def test_back_to_floats() -> None:
    assert narrow(0.75, 2) == 3
    assert narrow(0.5, -1073) == 5e-324
    assert narrow(0.5, -10_000) == 0
    assert narrow(0.0, ZERO_EXPONENT) == 0
    assert normal(6.0, 1) == (0.75, 4)
    assert power(0) == 1
    assert power(-1000) == 2.0**-1000
    assert power(-5000) == 0
