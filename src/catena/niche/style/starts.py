"""Pictures before the first step: white noise, noise with the spectrum of a sample, or patches of a sample.

Noise with the spectrum of the sample already has its colors, its contrast and its two-point statistics, so that fewer
steps are needed than from white noise and no colored noise is left. It is the limit of a sum of many copies of the
sample at random positions (Galerne et al. 2011, asymptotic discrete spot noise). Tested in
tests/niche/style/test_starts.py.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float

from catena.niche.style.random_filters import CENTER, DEVIATION
from catena.randomness import Randomness

TextureStart = Literal["spectrum", "noise", "patches"]
PATCH = 16
"""Height and width of the patches in pixels."""


def make_start(
    name: TextureStart, sample: Float[np.ndarray, "_ _ 3"], size: tuple[int, int], seed: int
) -> Float[np.ndarray, "height width 3"]:
    """The first picture of a texture, of ``size`` = height, width."""
    if name == "noise":
        return make_noise(size, seed)
    return (make_spectrum_noise if name == "spectrum" else arrange_patches)(sample, size, seed)


def make_noise(size: tuple[int, int], seed: int) -> Float[np.ndarray, "height width 3"]:
    """White noise with the mean and the deviation of photographs."""
    return torch.randn(*size, 3, generator=Randomness(seed).torch("noise")).double().numpy() * DEVIATION + CENTER


def make_spectrum_noise(
    sample: Float[np.ndarray, "_ _ 3"], size: tuple[int, int], seed: int
) -> Float[np.ndarray, "height width 3"]:
    """White noise convolved with the sample minus its mean, divided by the root of the number of its pixels."""
    part = sample[: size[0], : size[1]]
    mean = part.mean((0, 1))
    spot = np.zeros((*size, 3))
    spot[: part.shape[0], : part.shape[1]] = (part - mean) / math.sqrt(part.shape[0] * part.shape[1])
    noise = torch.randn(*size, 1, generator=Randomness(seed).torch("noise")).double().numpy()
    spectrum = np.fft.rfft2(spot, axes=(0, 1)) * np.fft.rfft2(noise, axes=(0, 1))
    return np.fft.irfft2(spectrum, s=size, axes=(0, 1)) + mean


def arrange_patches(
    sample: Float[np.ndarray, "_ _ 3"], size: tuple[int, int], seed: int
) -> Float[np.ndarray, "height width 3"]:
    """Patches of the sample from random positions, side by side."""
    rng = Randomness(seed).numpy("patches")
    side = min(PATCH, *sample.shape[:2])
    rows, columns = (-(-n // side) for n in size)
    tops = rng.integers(0, sample.shape[0] - side + 1, (rows, columns))
    lefts = rng.integers(0, sample.shape[1] - side + 1, (rows, columns))
    strips = [
        np.concatenate([sample[y : y + side, x : x + side] for y, x in zip(*pairs, strict=True)], axis=1)
        for pairs in zip(tops, lefts, strict=True)
    ]
    return np.concatenate(strips)[: size[0], : size[1]]
