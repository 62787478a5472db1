r"""AlexNet and VGG: convolutions, poolings and two dense layers.

AlexNet's local response normalization divides each value by its neighbors in n = 5 channels,

.. math::  b_c = a_c \Big/ \Big(k + \alpha \sum_{c' = c - n/2}^{c + n/2} a_{c'}^2\Big)^\beta,
           \qquad k = 2,\ \alpha = 10^{-4},\ \beta = 0.75

(Krizhevsky et al. 2012, section 3.3; torch divides its ``alpha`` by n, so it gets 5 alpha). The paper prints an input
of 224 pixels; its arithmetic gives 55 x 55 after the first layer, which needs 227 pixels or, as here, a padding of 2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.encoders.image_base import ConvolutionUnit, DenseHead, ImageEncoder, init_he_, scale_channels
from catena.encoders.image_config import AlexNetConfig, VGGConfig
from catena.errors import ConfigError

_LRN_CHANNELS = 5
VGG_LAYERS = {
    "A": ((64,), (128,), (256, 256), (512, 512), (512, 512)),
    "B": ((64, 64), (128, 128), (256, 256), (512, 512), (512, 512)),
    "D": ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)),
    "E": ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4),
}
"""Channels of the convolutions in each of the five stages."""


class AlexNet(ImageEncoder):
    """AlexNet with its two groups and local response normalization, for pictures of ``size`` = height, width.

    Args:
        config: width, size of the dense layers, dropout, initialization.
        size: height and width of the pictures.
        c_in: number of channels of the pictures.
    """

    def __init__(self, config: AlexNetConfig, size: tuple[int, int], c_in: int = 3) -> None:
        super().__init__()
        c = [scale_channels(n, config.width, groups=2) for n in (96, 256, 384, 384, 256)]
        self.c_in, self.d_map, self.d_out = c_in, c[4], config.d_dense
        window, stride = (5, 1) if config.small else (11, 4)
        self.layers = nn.Sequential(
            ConvolutionUnit(c_in, c[0], window, stride=stride, padding=2),
            response_norm(),
            nn.MaxPool2d(3, 2),
            ConvolutionUnit(c[0], c[1], 5, padding=2, groups=2),
            response_norm(),
            nn.MaxPool2d(3, 2),
            ConvolutionUnit(c[1], c[2], 3, padding=1),
            ConvolutionUnit(c[2], c[3], 3, padding=1, groups=2),
            ConvolutionUnit(c[3], c[4], 3, padding=1, groups=2),
            nn.MaxPool2d(3, 2),
        )
        self.dense = DenseHead(
            count_values(self.layers, size, self.d_map), config.d_dense, config.dropout, dropout_first=True
        )
        if config.init == "he":
            init_he_(self)
        else:
            self._init_normal()

    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        return self.layers(x)

    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        return self.dense(grid)

    @torch.no_grad()
    def _init_normal(self) -> None:
        """Section 5 of the paper: biases of 1 in the second, fourth and fifth convolution and in the dense layers."""
        weighted = [part for part in self.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
        for i, part in enumerate(weighted):
            part.weight.normal_(0, 0.01)
            assert part.bias is not None
            part.bias.fill_(0.0 if i in (0, 2) else 1.0)


class VGG(ImageEncoder):
    """VGG of one of the paper's variants, for pictures of ``size`` = height, width, at least 32 pixels.

    Args:
        config: variant, width, size of the dense layers, dropout.
        size: height and width of the pictures.
        c_in: number of channels of the pictures.
    """

    def __init__(self, config: VGGConfig, size: tuple[int, int], c_in: int = 3) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        c = c_in
        for stage in VGG_LAYERS[config.variant]:
            for channels in stage:
                n = scale_channels(channels, config.width)
                parts.append(ConvolutionUnit(c, n, 3, padding=1, batch_norm=config.batch_norm))
                c = n
            parts.append(nn.MaxPool2d(2, 2))
        self.c_in, self.d_map, self.d_out = c_in, c, config.d_dense
        self.layers = nn.Sequential(*parts)
        self.dense = DenseHead(
            count_values(self.layers, size, self.d_map), config.d_dense, config.dropout, dropout_first=False
        )
        init_he_(self)

    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        return self.layers(x)

    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        return self.dense(grid)


def response_norm() -> nn.LocalResponseNorm:
    """AlexNet's local response normalization."""
    return nn.LocalResponseNorm(_LRN_CHANNELS, alpha=_LRN_CHANNELS * 1e-4, beta=0.75, k=2.0)


def count_values(layers: nn.Module, size: tuple[int, int], c: int) -> int:
    """The number of values that convolutions and poolings make of one picture; ``c`` channels at the end."""
    height, width = size
    for part in layers.modules():
        if isinstance(part, nn.Conv2d | nn.MaxPool2d):
            height, width = _shrink(height, part), _shrink(width, part)
    if min(height, width) < 1:
        raise ConfigError(
            f"height and width must be large enough for every pooling, got {size[0]} x {size[1]}. Use at least "
            "32 x 32, or 64 x 64 for the full AlexNet."
        )
    return c * height * width


def _shrink(size: int, part: nn.Conv2d | nn.MaxPool2d) -> int:
    window, stride, padding = (
        value[0] if isinstance(value, tuple) else int(value) for value in (part.kernel_size, part.stride, part.padding)
    )
    return (size + 2 * int(padding) - window) // stride + 1
