"""Colors of the content: luminance and covariance against their definitions."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from catena.niche.style.colors import color_scales, match_colors, match_luminance, replace_luminance, to_gray

RNG = np.random.default_rng(0)
CONTENT = 0.3 + 0.4 * RNG.random((5, 6, 3))
STYLE = RNG.random((7, 4, 3)) @ np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.1], [0.0, 0.3, 0.8]])


def test_gray_picture_has_equal_channels_and_keeps_gray() -> None:
    gray = to_gray(CONTENT)
    assert (gray == gray[..., :1]).all()
    np.testing.assert_allclose(to_gray(gray), gray)
    np.testing.assert_allclose(to_gray(np.array([[[1.0, 0, 0]]]))[0, 0], 0.299)


def test_replaced_luminance_keeps_chrominance() -> None:
    other = to_gray(np.clip(CONTENT + 0.05, 0, 1))
    mixed = replace_luminance(CONTENT, other)
    np.testing.assert_allclose(to_gray(mixed), other, atol=1e-12)
    for before, after in zip(CONTENT.reshape(-1, 3), mixed.reshape(-1, 3), strict=True):
        np.testing.assert_allclose(colorsys.rgb_to_yiq(*before)[1:], colorsys.rgb_to_yiq(*after)[1:], atol=0.01)
    assert mixed.shape == CONTENT.shape


def test_matched_colors_have_mean_and_covariance_of_content() -> None:
    matched = match_colors(STYLE, CONTENT).reshape(-1, 3)
    wanted = CONTENT.reshape(-1, 3)
    np.testing.assert_allclose(matched.mean(0), wanted.mean(0), atol=1e-12)
    np.testing.assert_allclose(np.cov(matched.T, bias=True), np.cov(wanted.T, bias=True), atol=1e-4)


def test_matched_colors_of_one_color_are_finite() -> None:
    matched = match_colors(np.full((3, 3, 3), 0.5), CONTENT)
    assert np.isfinite(matched).all()


def test_matched_luminance_has_mean_and_deviation_of_content() -> None:
    matched, wanted = match_luminance(STYLE, CONTENT), to_gray(CONTENT)
    assert matched.mean() == pytest.approx(wanted.mean())
    assert matched.std() == pytest.approx(wanted.std())


def test_color_scales_shrink_directions_without_variance() -> None:
    gray = color_scales([to_gray(CONTENT)])
    np.testing.assert_allclose(gray @ np.ones(3), np.ones(3), atol=1e-12)  # brightness
    np.testing.assert_allclose(gray @ [1, -1, 0], np.array([1, -1, 0]) * (0.1 + 1 / 300) / 1.1, atol=0.01)
    np.testing.assert_allclose(color_scales([CONTENT]), color_scales([CONTENT]).T, atol=1e-12)
    equal = np.random.default_rng(1).random((100, 100, 3))
    np.testing.assert_allclose(color_scales([equal]), np.eye(3), atol=0.05)
