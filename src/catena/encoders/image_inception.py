r"""GoogLeNet: inception blocks, which join four branches with windows of 1, 3 and 5 and a pooling.

.. math::  y = [\,C_1 x;\ C_3 C_1' x;\ C_5 C_1'' x;\ C_1''' \max_{3 \times 3} x\,]

with a ReLU after each convolution. Two auxiliary classifiers in the middle give gradients to the early layers and are
dropped after training. Szegedy et al. 2015, table 1. Other libraries have 3x3 windows in the third branch, a mistake
that they keep for their weights; here it has 5x5, as in the paper.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.encoders.image_base import ConvolutionUnit, ImageEncoder, init_he_, scale_channels
from catena.encoders.image_config import GoogLeNetConfig


class Branches(NamedTuple):
    """Channels of an inception block: 1x1, before and after 3x3, before and after 5x5, after the pooling."""

    one: int
    before_three: int
    three: int
    before_five: int
    five: int
    pooled: int


BLOCKS = {
    "3a": Branches(64, 96, 128, 16, 32, 32),
    "3b": Branches(128, 128, 192, 32, 96, 64),
    "4a": Branches(192, 96, 208, 16, 48, 64),
    "4b": Branches(160, 112, 224, 24, 64, 64),
    "4c": Branches(128, 128, 256, 24, 64, 64),
    "4d": Branches(112, 144, 288, 32, 64, 64),
    "4e": Branches(256, 160, 320, 32, 128, 128),
    "5a": Branches(256, 160, 320, 32, 128, 128),
    "5b": Branches(384, 192, 384, 48, 128, 128),
}
_EARLY = ("4a", "4d")
"""Blocks whose outputs the auxiliary classifiers read."""


class InceptionBlock(nn.Module):
    """Four branches over the same grid, joined on the channel axis."""

    def __init__(self, c_in: int, branches: Branches, batch_norm: bool) -> None:
        super().__init__()
        b = branches
        self.c_out = b.one + b.three + b.five + b.pooled

        def unit(c: int, n: int, window: int = 1) -> ConvolutionUnit:
            return ConvolutionUnit(c, n, window, padding=window // 2, batch_norm=batch_norm)

        self.branches = nn.ModuleList(
            (
                unit(c_in, b.one),
                nn.Sequential(unit(c_in, b.before_three), unit(b.before_three, b.three, 3)),
                nn.Sequential(unit(c_in, b.before_five), unit(b.before_five, b.five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, padding=1), unit(c_in, b.pooled)),
            )
        )

    def forward(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b c_out height width"]:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class GoogLeNet(ImageEncoder):
    """GoogLeNet; the auxiliary classifiers are separate modules that read the grids after blocks 4a and 4d.

    Args:
        config: width, stem, dropout.
        c_in: number of channels of the pictures.
    """

    def __init__(self, config: GoogLeNetConfig, c_in: int = 3) -> None:
        super().__init__()
        self.c_in = c_in
        n = scale_channels(64, config.width), scale_channels(192, config.width)
        self.stem = _small_stem(c_in, n[1], config) if config.small else _full_stem(c_in, n, config)
        self.blocks = nn.ModuleDict()
        c, early = n[1], []
        for name, branches in BLOCKS.items():
            scaled = Branches(*(scale_channels(channels, config.width) for channels in branches))
            block = InceptionBlock(c, scaled, config.batch_norm)
            self.blocks[name] = block
            c = block.c_out
            if name in _EARLY:
                early.append(c)
        self.early_channels = tuple(early)
        self.d_map = self.d_out = c
        self.shrink = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.dropout = nn.Dropout(config.dropout)
        init_he_(self)

    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        return self.convolve_early(x)[0]

    def convolve_early(
        self, x: Float[Tensor, "b c height width"]
    ) -> tuple[Float[Tensor, "b d_map rows columns"], list[Float[Tensor, "b _ _ _"]]]:
        """The last grid, and those that the auxiliary classifiers read."""
        x = self.stem(x)
        early = []
        for name, block in self.blocks.items():
            x = block(self.shrink(x) if name in ("4a", "5a") else x)
            if name in _EARLY:
                early.append(x)
        return x, early

    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        return self.dropout(grid.mean(dim=(2, 3)))


class AuxiliaryClassifier(nn.Module):
    """Mean over windows of 5, a 1x1 convolution to 128 channels, 1,024 dense units and the classes.

    A grid smaller than 5 is averaged as a whole, and the units shrink with ``width``.
    """

    def __init__(self, c_in: int, k: int, grid: tuple[int, int], width: float = 1.0) -> None:
        super().__init__()
        window = min(5, *grid)
        sizes = [(n - window) // 3 + 1 for n in grid]
        channels, units = scale_channels(128, width), scale_channels(1024, width)
        self.layers = nn.Sequential(
            nn.AvgPool2d(window, 3),
            ConvolutionUnit(c_in, channels, 1),
            nn.Flatten(),
            nn.Linear(channels * sizes[0] * sizes[1], units),
            nn.ReLU(),
            nn.Dropout(0.7),
            nn.Linear(units, k),
        )
        init_he_(self)

    def forward(self, grid: Float[Tensor, "b c rows columns"]) -> Float[Tensor, "b k"]:
        return self.layers(grid)


def early_grid(config: GoogLeNetConfig, size: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the grids that the auxiliary classifiers read."""
    halvings = 1 if config.small else 4
    rows, columns = size
    for _ in range(halvings):
        rows, columns = -(-rows // 2), -(-columns // 2)
    return rows, columns


def _full_stem(c_in: int, n: tuple[int, int], config: GoogLeNetConfig) -> nn.Sequential:
    norm = config.batch_norm
    return nn.Sequential(
        ConvolutionUnit(c_in, n[0], 7, stride=2, padding=3, batch_norm=norm),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        ConvolutionUnit(n[0], n[0], 1, batch_norm=norm),
        ConvolutionUnit(n[0], n[1], 3, padding=1, batch_norm=norm),
        nn.MaxPool2d(3, 2, ceil_mode=True),
    )


def _small_stem(c_in: int, n: int, config: GoogLeNetConfig) -> nn.Sequential:
    return nn.Sequential(ConvolutionUnit(c_in, n, 3, padding=1, batch_norm=config.batch_norm))
