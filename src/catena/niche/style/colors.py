r"""Colors of a content picture kept in style transfer (Gatys et al. 2016, "Preserving color in neural artistic style").

* ``luminance``: the style is transferred between gray pictures, and the result has the colors of the content.
* ``histogram``: the style picture first gets the mean and the covariance of the colors of the content,
  :math:`x' = \Sigma_c^{1/2} \Sigma_s^{-1/2} (x - \mu_s) + \mu_c`.

:func:`color_scales` gives the scales of colors for the optimizer. Pictures are arrays ``height width 3`` with values
from 0 to 1. Tested in tests/niche/style/test_colors.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

_LUMA = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue in the luminance (ITU-R BT.601)."""
_SMALLEST = 1e-6
"""Added to the variances, so that the matrix of a gray picture has an inverse."""
_LEAST_SCALE = 0.1
"""Added to the relative deviations of colors, so that a picture can leave the colors of its target for some time."""

_Picture = Float[np.ndarray, "_ _ 3"]


def to_gray(picture: _Picture) -> _Picture:
    """The luminance in all three channels."""
    return np.repeat((picture @ _LUMA)[..., None], 3, axis=2)


def replace_luminance(colors: _Picture, luminance: _Picture) -> _Picture:
    """The colors of one picture with the luminance of another. The chrominance in YIQ does not change."""
    return np.clip(colors + to_gray(luminance) - to_gray(colors), 0, 1)


def match_luminance(style: _Picture, content: _Picture) -> _Picture:
    """The luminance of the style picture with the mean and the deviation of the content's, not clipped."""
    gray, wanted = to_gray(style), to_gray(content)
    return (gray - gray.mean()) * (wanted.std() / max(gray.std(), _SMALLEST)) + wanted.mean()


def match_colors(style: _Picture, content: _Picture) -> _Picture:
    """The style picture with the mean and the covariance of the colors of the content, not clipped."""
    source, wanted = style.reshape(-1, 3), content.reshape(-1, 3)
    matrix = _power(_covariance(wanted), 0.5) @ _power(_covariance(source), -0.5)
    return ((source - source.mean(0)) @ matrix.T + wanted.mean(0)).reshape(style.shape)


def color_scales(pictures: Sequence[_Picture], weights: Sequence[float] = (1.0,)) -> Float[np.ndarray, "3 3"]:
    """The symmetric matrix that scales each principal direction of the colors by its deviation, at most 1.

    Variables z with x = matrix @ z make steps of similar relative size in all directions: brightness varies more than
    the other colors, and in a gray picture the colors do not vary at all.
    """
    covariances = [_covariance(one.reshape(-1, 3)) for one in pictures]
    values, vectors = np.linalg.eigh(np.average(covariances, axis=0, weights=weights))
    deviations = np.sqrt(values)
    scales = deviations + _LEAST_SCALE * deviations.max()
    return (vectors * (scales / scales.max())) @ vectors.T


def _covariance(pixels: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "3 3"]:
    return np.cov(pixels, rowvar=False, bias=True) + _SMALLEST * np.eye(3)


def _power(matrix: Float[np.ndarray, "3 3"], exponent: float) -> Float[np.ndarray, "3 3"]:
    """The power of a symmetric positive matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T
