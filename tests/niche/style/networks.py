"""A small network with the layers conv1_1 to conv3_1, and simple pictures, for the tests of this folder."""

from __future__ import annotations

import numpy as np
import torch

from catena.encoders.image_features import VGGFeatures


def small_network(dtype: torch.dtype = torch.float64, seed: int = 0) -> VGGFeatures:
    """VGG with 4, 5 and 6 channels in its three stages."""
    generator = torch.Generator().manual_seed(seed)
    stages = []
    c = 3
    for channels in ((4, 4), (5, 5), (6,)):
        stage = []
        for n in channels:
            weight = torch.randn(n, c, 3, 3, generator=generator, dtype=torch.float64) / (3 * c**0.5)
            stage.append((weight.to(dtype), 0.1 * torch.randn(n, generator=generator).to(dtype)))
            c = n
        stages.append(stage)
    return VGGFeatures(stages).to(dtype)


def stripes(height: int = 32, width: int = 32, period: int = 6) -> np.ndarray:
    """Diagonal stripes in two colors."""
    rows, columns = np.mgrid[:height, :width]
    first = ((rows + columns) // (period // 2)) % 2 == 0
    return np.where(first[..., None], (210, 120, 40), (30, 60, 150)).astype(np.uint8)


def disk(height: int = 32, width: int = 40) -> np.ndarray:
    """A light disk on a dark ground that becomes lighter to the right."""
    rows, columns = np.mgrid[:height, :width]
    inside = (rows - height / 2) ** 2 + (columns - width / 2) ** 2 < (height / 3) ** 2
    ground = 30 + 60 * columns / width
    return np.where(inside[..., None], (230, 220, 190), np.stack([ground, ground, ground + 20], -1)).astype(np.uint8)
