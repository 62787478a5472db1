r"""Highway networks for pictures, of convolutions or of dense layers.

.. math::  y = H(x) \circ T(x) + x \circ (1 - T(x)), \qquad T(x) = \sigma(W_T * x + b_T)

with :math:`H(x) = f(W_H * x + b_H)`. Both convolutions keep the size of the grid and the number of channels; between
stages, where sizes differ, a plain convolution and a pooling take over. Srivastava et al. 2015, sections 2 and 4. The
dense form reuses :class:`catena.encoders.highway.HighwayLayer`.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.encoders.highway import HighwayLayer
from catena.encoders.image_base import ConvolutionUnit, ImageEncoder, init_he_
from catena.encoders.image_config import HighwayImageConfig
from catena.encoders.layers import build_activation
from catena.numerics import lerp

_N_STAGES = 3


class HighwayConvolution(nn.Module):
    """One highway layer of 3x3 convolutions over ``c`` channels."""

    def __init__(self, c: int, activation: nn.Module, *, bias: float, batch_norm: bool) -> None:
        super().__init__()
        self.maps = nn.Conv2d(c, 2 * c, 3, padding=1)  # blocks: H, T
        self.norm = nn.BatchNorm2d(c) if batch_norm else nn.Identity()
        self.activation = activation
        init_he_(self)
        with torch.no_grad():
            assert self.maps.bias is not None
            self.maps.bias[c:] = bias

    def forward(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b c height width"]:
        new, transform = self.maps(x).chunk(2, dim=1)
        return lerp(x, self.activation(self.norm(new)), torch.sigmoid(transform))


class HighwayImageEncoder(ImageEncoder):
    """Three stages of highway convolutions, with poolings between them and a mean over the grid at the end."""

    def __init__(self, config: HighwayImageConfig, c_in: int = 3) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        c = c_in
        for stage in range(_N_STAGES):
            c_out = config.d * 2**stage
            parts += [nn.MaxPool2d(2, 2)] if stage > 0 else []
            parts.append(ConvolutionUnit(c, c_out, 3, padding=1, batch_norm=config.batch_norm))
            parts += [
                HighwayConvolution(
                    c_out, build_activation(config.activation), bias=config.bias, batch_norm=config.batch_norm
                )
                for _ in range(config.n_layers // _N_STAGES)
            ]
            c = c_out
        self.layers = nn.Sequential(*parts)
        self.c_in, self.d_map, self.d_out = c_in, c, c
        self.dropout = nn.Dropout(config.dropout)

    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        return self.layers(x)

    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        return self.dropout(grid.mean(dim=(2, 3)))


class DenseHighwayImageEncoder(ImageEncoder):
    """Highway layers over all pixels of pictures of ``size`` = height, width."""

    def __init__(self, config: HighwayImageConfig, size: tuple[int, int], c_in: int = 3) -> None:
        super().__init__()
        self.c_in, self.d_map, self.d_out = c_in, config.d, config.d
        self.enter = nn.Sequential(
            nn.Flatten(), nn.Linear(c_in * size[0] * size[1], config.d), build_activation(config.activation)
        )
        self.layers = nn.Sequential(
            *(
                HighwayLayer(config.d, build_activation(config.activation), bias=config.bias)
                for _ in range(config.n_layers)
            )
        )
        self.dropout = nn.Dropout(config.dropout)

    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        return self.layers(self.enter(x))[:, :, None, None]

    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        return self.dropout(grid.flatten(1))
