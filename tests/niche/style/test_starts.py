"""First pictures of a texture: their statistics, against sums over pixels, and their seeds."""

from __future__ import annotations

import numpy as np
import pytest

from catena.niche.style.pictures import to_unit
from catena.niche.style.random_filters import CENTER, DEVIATION
from catena.niche.style.starts import PATCH, TextureStart, arrange_patches, make_noise, make_spectrum_noise, make_start
from tests.niche.style.networks import disk, stripes

SAMPLE = to_unit(stripes(32, 32))


def covariance(x: np.ndarray, dy: int, dx: int) -> float:
    """Covariance of the red channel at two positions of a picture that repeats."""
    red = x[..., 0] - x[..., 0].mean()
    return float(np.mean(red * np.roll(red, (dy, dx), (0, 1))))


def test_noise_has_mean_and_deviation_of_photographs() -> None:
    noise = make_noise((64, 48), 0)
    assert noise.shape == (64, 48, 3)
    assert noise.mean() == pytest.approx(CENTER, abs=0.01)
    assert noise.std() == pytest.approx(DEVIATION, abs=0.01)


@pytest.mark.parametrize("shift", [(0, 0), (0, 3), (2, 2), (5, 1)])
def test_spectrum_noise_has_the_covariances_of_the_sample(shift: tuple[int, int]) -> None:
    found = np.mean([covariance(make_spectrum_noise(SAMPLE, (32, 32), seed), *shift) for seed in range(200)])
    assert found == pytest.approx(covariance(SAMPLE, *shift), abs=0.15 * covariance(SAMPLE, 0, 0))


def test_spectrum_noise_has_the_mean_and_only_the_colors_of_the_sample() -> None:
    noise = make_spectrum_noise(SAMPLE, (40, 50), 1)
    assert noise.shape == (40, 50, 3)
    np.testing.assert_allclose(noise.mean((0, 1)), SAMPLE.mean((0, 1)), atol=1e-10)
    axis = SAMPLE[0, 0] - SAMPLE[0, 3]  # the sample has two colors, so all pixels lie on one line
    offsets = (noise - SAMPLE.mean((0, 1))).reshape(-1, 3)
    assert np.linalg.norm(np.cross(offsets, axis / np.linalg.norm(axis)), axis=1).max() < 1e-9
    assert make_spectrum_noise(SAMPLE, (20, 24), 1).shape == (20, 24, 3)


def test_patches_are_parts_of_the_sample() -> None:
    sample = to_unit(disk(40, 48))
    found = arrange_patches(sample, (40, 50), 0)
    assert found.shape == (40, 50, 3)
    windows = np.lib.stride_tricks.sliding_window_view(sample, (PATCH, PATCH), (0, 1))
    patch = np.moveaxis(found[PATCH : 2 * PATCH, PATCH : 2 * PATCH], 2, 0)
    assert (windows == patch).all((2, 3, 4)).any()
    assert arrange_patches(sample[:5, :7], (9, 9), 0).shape == (9, 9, 3)


@pytest.mark.parametrize("name", ["spectrum", "noise", "patches"])
def test_start_depends_on_the_seed(name: TextureStart) -> None:
    sample = to_unit(disk(40, 40))
    first, again, other = (make_start(name, sample, (32, 40), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
