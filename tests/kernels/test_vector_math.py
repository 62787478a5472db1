"""The vector exponential against the C library's, to the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catena.kernels.common.jit import jit
from catena.kernels.common.vector_math import exp_less


@jit("1", "f", "1")
def exponentials(x, shift, result):
    exp_less(x, shift, result)


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -87.0), (np.float64, -708.0)])
def test_error_is_at_most_one_unit_in_the_last_place(dtype: type, least: float) -> None:
    x = np.concatenate([np.linspace(least + 0.5, 0.5, 4001), -np.logspace(-12, 1, 200)]).astype(dtype)
    found = np.empty_like(x)
    exponentials(x, dtype(0), found)
    assert len(x) == 4201
    for value, result in zip(x.tolist(), found.tolist(), strict=True):
        assert abs(result / math.exp(value) - 1) <= 1.01 * float(np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shift_is_subtracted_and_special_values_are_kept(dtype: type) -> None:
    x = np.array([3.0, 2.0, -np.inf, np.nan, -1e30], dtype=dtype)
    found = np.empty_like(x)
    exponentials(x, dtype(3), found)
    assert found[0] == 1
    assert found[1] == pytest.approx(math.exp(-1), rel=1e-6)
    assert found[2] == 0
    assert np.isnan(found[3])
    assert found[4] == 0


def test_output_may_be_the_input() -> None:
    x = np.linspace(-3, 0, 37)
    expected = np.exp(x)
    exponentials(x, 0.0, x)
    assert np.allclose(x, expected, rtol=1e-15)
