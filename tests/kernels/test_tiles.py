"""Products of small matrices inside larger arrays: the same as those of numpy, wherever they begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from catena.kernels.common.jit import jit
from catena.kernels.common.tiles import LANES, multiply, round_up, scale_row

AT = 3
"""Where the matrices begin in their arrays."""


@jit("d1", "i", "i", "d1", "i", "i", "d1", "i", "i", "i", "b")
def run_multiply(
    x: Any, x_row: int, x_step: int, y: Any, y_row: int, depth: int, z: Any, z_row: int, n_rows: int, width: int,
    add: bool,
) -> None:  # fmt: skip
    multiply(x, AT, x_row, x_step, y, AT, y_row, depth, z, AT, z_row, n_rows, width, add)


@jit("d1", "d", "d1", "i", "b")
def run_scale_row(x: Any, factor: float, z: Any, size: int, add: bool) -> None:
    scale_row(x, AT, factor, z, AT, size, add)


def matrix_in(array: np.ndarray, n_rows: int, n_columns: int, row: int, step: int = 1) -> np.ndarray:
    """The matrix with these strides, as a view."""
    return as_strided(array[AT:], (n_rows, n_columns), (8 * row, 8 * step))


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 11), st.integers(0, 9), st.integers(1, 60), st.booleans(), st.booleans(), st.integers(0, 99))
def test_product_equals_that_of_numpy(n: int, depth: int, wide: int, add: bool, transposed: bool, seed: int) -> None:
    width = round_up(wide)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=AT + (n + 2) * (depth + 2))
    y = rng.normal(size=AT + (depth + 1) * (width + 1))
    z = rng.normal(size=AT + n * (width + 2) + 5)
    strides = (1, n + 1) if transposed else (depth + 1, 1)
    expected = z.copy()
    product = matrix_in(x, n, depth, *strides) @ matrix_in(y, depth, width, width + 1)
    place = matrix_in(expected, n, width, width + 2)
    place[:] = place * add + product
    run_multiply(x, *strides, y, width + 1, depth, z, width + 2, n, width, add)
    np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 5, 13, 20, 29, 37])
@pytest.mark.parametrize("add", [False, True])
def test_overlapping_rows_keep_their_columns(columns: int, add: bool) -> None:
    n, depth, width = 7, 6, round_up(columns)
    rng = np.random.default_rng(columns)
    x = rng.normal(size=AT + n * depth)
    y = np.zeros(AT + depth * width)
    matrix_in(y, depth, columns, width)[:] = rng.normal(size=(depth, columns))
    z = rng.normal(size=AT + n * columns + LANES)
    product = matrix_in(x, n, depth, depth) @ matrix_in(y, depth, columns, width)
    expected = matrix_in(z, n, columns, columns) * add + product
    before = z[:AT].copy()
    run_multiply(x, depth, 1, y, width, depth, z, columns, n, width, add)
    np.testing.assert_allclose(matrix_in(z, n, columns, columns), expected, rtol=1e-12, atol=1e-12)
    assert (z[:AT] == before).all()


@pytest.mark.parametrize("size", [8, 24])
@pytest.mark.parametrize("add", [False, True])
def test_scaled_row_changes_nothing_else(size: int, add: bool) -> None:
    rng = np.random.default_rng(size)
    x, z = rng.normal(size=(2, AT + size + 4))
    expected = z.copy()
    expected[AT : AT + size] = z[AT : AT + size] * add + 0.25 * x[AT : AT + size]
    run_scale_row(x, 0.25, z, size, add)
    np.testing.assert_allclose(z, expected, rtol=1e-15)
