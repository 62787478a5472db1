"""What compiled loops know of a single float, against plain arithmetic."""

from __future__ import annotations

import math
import struct

import pytest
from numba import njit

from catena.kernels.common.floats import BIAS, BITS, LN2, LN2_HIGH, LN2_LOW, bits_of, float64_of, log_add
from tests.oracle.moments import log_add as log_add_plainly


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (-3.0, 2.0), (2.0, -3.0), (700.0, -700.0), (-1e4, -1e4 - 1)])
def test_logarithms_of_sums(a: float, b: float) -> None:
    assert log_add(a, b) == pytest.approx(log_add_plainly([a, b]), rel=1e-15)


def test_minus_infinity_adds_nothing() -> None:
    assert log_add(-math.inf, -5.0) == log_add(-5.0, -math.inf) == -5.0
    assert log_add(-math.inf, -math.inf) == -math.inf


def test_integers_times_the_first_part_of_ln_2_are_exact() -> None:
    for n in (1, 3, 1021, 1074):
        assert n * LN2_HIGH - (n - 1) * LN2_HIGH == LN2_HIGH
    assert LN2_HIGH + LN2_LOW == LN2


def test_bits_of_a_float_round_trip() -> None:
    @njit
    def both_ways(x: float) -> tuple[int, float]:
        return bits_of(x), float64_of(bits_of(x))

    for x in (1.0, -0.1, 5e-324, math.inf):
        bits, again = both_ways(x)
        assert (bits, again) == (struct.unpack("<q", struct.pack("<d", x))[0], x)
    assert both_ways(2.0**5)[0] == (5 + BIAS) << BITS
