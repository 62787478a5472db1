"""Mu-law levels: the round trip, the width of a level, symmetry, and the formula of the paper one sample at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.mulaw import compand, decode_mulaw, encode_mulaw, expand, level_positions, silence_level
from catena.errors import ConfigError, DataError

LEVELS = [2, 3, 4, 16, 255, 256]


def level(x: float, n_levels: int) -> int:
    """The formula of the paper, written with ``math`` only."""
    mu = n_levels - 1
    y = math.copysign(math.log(1 + mu * abs(x)) / math.log(1 + mu), x)
    return math.floor((y + 1) / 2 * mu + 0.5)


def sample(i: float, n_levels: int) -> float:
    mu = n_levels - 1
    y = 2 * i / mu - 1
    return math.copysign(((1 + mu) ** abs(y) - 1) / mu, y)


@pytest.mark.parametrize("n_levels", LEVELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encoding_inverts_decoding(n_levels: int, dtype: type) -> None:
    ids = np.arange(n_levels, dtype=np.uint8)
    assert encode_mulaw(decode_mulaw(ids, n_levels).astype(dtype), n_levels).tolist() == ids.tolist()


@pytest.mark.parametrize("n_levels", LEVELS)
def test_decoded_levels_equal_the_formula_and_are_odd(n_levels: int) -> None:
    decoded = decode_mulaw(np.arange(n_levels), n_levels)
    assert decoded.tolist() == pytest.approx([sample(i, n_levels) for i in range(n_levels)], abs=1e-7)
    assert (decoded == -decoded[::-1]).all()
    assert (np.diff(decoded) > 0).all()


@given(st.floats(-1, 1), st.sampled_from(LEVELS))
def test_level_equals_the_formula_and_is_within_half_a_bin(x: float, n_levels: int) -> None:
    found = int(encode_mulaw(np.array([x]), n_levels)[0])
    assert found in {level(x, n_levels), level(np.nextafter(x, -2), n_levels), level(np.nextafter(x, 2), n_levels)}
    mu = n_levels - 1
    assert abs(compand(np.array([x]), mu)[0] - level_positions(n_levels)[found]) <= 1 / mu + 1e-12
    low, high = sample(max(found - 0.5, 0), n_levels), sample(min(found + 0.5, mu), n_levels)
    assert low - 1e-12 <= x <= high + 1e-12


@given(st.floats(1e-3, 1), st.sampled_from([4, 256]))
def test_opposite_samples_have_opposite_levels(x: float, n_levels: int) -> None:
    at_edge = abs((compand(np.array([x]), n_levels - 1)[0] + 1) / 2 * (n_levels - 1) % 1 - 0.5) < 1e-9
    low, high = encode_mulaw(np.array([-x, x]), n_levels)
    assert at_edge or int(low) + int(high) == n_levels - 1


def test_samples_are_clipped_and_keep_their_shape() -> None:
    assert encode_mulaw(np.array([[-7.0, -1.0], [1.0, 1.5]])).tolist() == [[0, 0], [255, 255]]
    assert encode_mulaw(np.zeros((0,), np.float32)).shape == (0,)
    assert encode_mulaw(np.zeros(3)).dtype == np.uint8
    assert decode_mulaw(np.array([0, 255])).dtype == np.float32


def test_silence_is_the_level_of_zero() -> None:
    assert silence_level() == 128
    for n_levels in LEVELS:
        assert encode_mulaw(np.zeros(1), n_levels)[0] == silence_level(n_levels)
        assert encode_mulaw(-np.zeros(1), n_levels)[0] == silence_level(n_levels)


def test_companding_has_derivative_46_at_zero_and_does_not_saturate() -> None:
    x = np.array([0.0, 1e-9, 1 - 1e-9, 1.0])
    y = compand(x)
    assert (y[1] - y[0]) / 1e-9 == pytest.approx(255 / math.log(256), rel=1e-6)
    assert (y[3] - y[2]) / 1e-9 == pytest.approx(255 / 256 / math.log(256), rel=1e-4)
    np.testing.assert_allclose(expand(y), x, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.bool_, np.complex64])
def test_samples_that_are_not_floats_raise(dtype: type) -> None:
    with pytest.raises(DataError, match=r"samples must be floats from -1 to 1, got .*\. Divide integers"):
        encode_mulaw(np.zeros(3, dtype))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_samples_that_are_not_finite_raise(bad: float) -> None:
    with pytest.raises(DataError, match="samples must be finite"):
        encode_mulaw(np.array([0.0, bad]))


def test_wrong_ids_and_levels_raise() -> None:
    with pytest.raises(DataError, match="ids must be integers, got float64"):
        decode_mulaw(np.zeros(3))
    with pytest.raises(DataError, match="ids must be from 0 to 3, got 0 to 4"):
        decode_mulaw(np.arange(5), 4)
    with pytest.raises(DataError, match="ids must be from 0 to 255, got -1 to 2"):
        decode_mulaw(np.array([-1, 2]))
    for n_levels in (1, 257):
        with pytest.raises(ConfigError, match=f"n_levels must be from 2 to 256, got {n_levels}"):
            encode_mulaw(np.zeros(1), n_levels)
