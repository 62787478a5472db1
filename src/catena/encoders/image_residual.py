r"""Residual networks, and plain networks with the same layers.

.. math::  y = \mathrm{relu}(F(x) + s(x))

where F is two 3x3 convolutions (basic block) or 1x1, 3x3 and 1x1 convolutions (bottleneck), each followed by batch
normalization, with a ReLU between them, and s is the identity. Between stages, where the grid is halved and the
channels are doubled, s takes every second position and either pads the channels with zeros (option A, no parameters)
or is a 1x1 convolution (option B). The plain network leaves out s. He et al. 2016, sections 3 and 4.2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.encoders.image_base import ConvolutionUnit, ImageEncoder, init_he_
from catena.encoders.image_config import RESNET_STAGES, ResNetConfig

_EXPANSION = 4
"""Output channels of a bottleneck for each inner channel."""


class ZeroPadding(nn.Module):
    """Option A: every ``stride``-th position, with channels of zeros appended."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.added, self.stride = c_out - c_in, stride

    def forward(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b c_out rows columns"]:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class ResidualBlock(nn.Module):
    """relu(F(x) + s(x)), or relu(F(x)) if ``shortcut`` is None; F ends in batch normalization."""

    def __init__(self, inner: nn.Sequential, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.inner, self.shortcut = inner, shortcut

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """The batch normalization whose output is added to the shortcut."""
        norms = [part for part in self.inner.modules() if isinstance(part, nn.BatchNorm2d)]
        return norms[-1]

    def forward(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b c_out rows columns"]:
        y = self.inner(x)
        return F.relu(y if self.shortcut is None else y + self.shortcut(x))


class ResNet(ImageEncoder):
    """A residual or plain network in its small form (6 n + 2 layers, 32 pixels) or its full form (224 pixels).

    Args:
        config: depth, width, stem, dropout.
        c_in: number of channels of the pictures.
    """

    def __init__(self, config: ResNetConfig, c_in: int = 3) -> None:
        super().__init__()
        width = config.width or (16 if config.small else 64)
        n_blocks_small = (config.depth - 2) // (2 * config.stages)
        stages = (n_blocks_small,) * config.stages if config.small else RESNET_STAGES[config.depth]
        self.bottleneck = not config.small and config.depth >= 50
        self.config = config
        self.stem = _build_stem(config, c_in, width)
        blocks: list[nn.Module] = []
        c = width
        for i, n_blocks in enumerate(stages):
            c_out = width * 2**i * (_EXPANSION if self.bottleneck else 1)
            for j in range(n_blocks):
                blocks.append(self._build_block(c, c_out, stride=2 if i > 0 and j == 0 else 1))
                c = c_out
        self.blocks = nn.Sequential(*blocks)
        self.c_in, self.d_map, self.d_out = c_in, c, c
        self.dropout = nn.Dropout(config.dropout)
        init_he_(self)
        if config.zero_gamma:
            self._zero_last_scales()

    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        return self.blocks(self.stem(x))

    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        return self.dropout(grid.mean(dim=(2, 3)))

    def _build_block(self, c_in: int, c_out: int, stride: int) -> ResidualBlock:
        if self.bottleneck:
            c = c_out // _EXPANSION
            inner = nn.Sequential(
                ConvolutionUnit(c_in, c, 1, batch_norm=True),
                ConvolutionUnit(c, c, 3, stride=stride, padding=1, batch_norm=True),
                ConvolutionUnit(c, c_out, 1, batch_norm=True, relu=False),
            )
        else:
            inner = nn.Sequential(
                ConvolutionUnit(c_in, c_out, 3, stride=stride, padding=1, batch_norm=True),
                ConvolutionUnit(c_out, c_out, 3, padding=1, batch_norm=True, relu=False),
            )
        return ResidualBlock(inner, self._build_shortcut(c_in, c_out, stride) if self.config.residual else None)

    def _build_shortcut(self, c_in: int, c_out: int, stride: int) -> nn.Module:
        if c_in == c_out and stride == 1:
            return nn.Identity()
        option = self.config.shortcut or ("A" if self.config.small else "B")
        if option == "A":
            return ZeroPadding(c_in, c_out, stride)
        return ConvolutionUnit(c_in, c_out, 1, stride=stride, batch_norm=True, relu=False)

    @torch.no_grad()
    def _zero_last_scales(self) -> None:
        for block in self.blocks:
            assert isinstance(block, ResidualBlock)
            block.last_norm.weight.zero_()


def _build_stem(config: ResNetConfig, c_in: int, width: int) -> nn.Module:
    if config.small:
        return ConvolutionUnit(c_in, width, 3, padding=1, batch_norm=True)
    return nn.Sequential(
        ConvolutionUnit(c_in, width, 7, stride=2, padding=3, batch_norm=True), nn.MaxPool2d(3, 2, padding=1)
    )
