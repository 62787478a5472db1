r"""Upsampling: a slower series of vectors at the rate of another one, for local conditioning.

.. math::
    \text{repetition: } y_{j h + i} = u_j \qquad
    \text{linear: } y_{j h + i} = (1 - \tfrac i h)\, u_j + \tfrac i h\, u_{j+1} \qquad 0 \le i < h

with h the hop, the number of positions for each vector u_j; the last vector is held. Learned upsampling multiplies the
rate by transposed convolutions whose strides have the product h, each followed by a convolution over three positions,
which smooths the edges between the filters (van den Oord et al. 2016, section 2.5). It starts as repetition. The
learned form may depend on later vectors of the series.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.errors import ConfigError


class Upsampling(nn.Module, ABC):
    """Abstract map of ``b s d`` to ``b (s hop) d``.

    Args:
        d: features of a vector.
        hop: positions for each vector.
    """

    margin = 0
    """Number of vectors before and after one that its positions may depend on."""

    def __init__(self, d: int, hop: int) -> None:
        super().__init__()
        if hop < 1:
            raise ConfigError(f"hop must be at least 1, got {hop}. Use the number of samples between two frames.")
        self.d, self.hop = d, hop

    @abstractmethod
    def forward(self, series: Float[Tensor, "b s d"]) -> Float[Tensor, "b t d"]:
        """The series at the higher rate."""


class RepeatUpsampling(Upsampling):
    """Each vector repeated ``hop`` times."""

    def forward(self, series: Float[Tensor, "b s d"]) -> Float[Tensor, "b t d"]:
        return series.repeat_interleave(self.hop, dim=1)


class LinearUpsampling(Upsampling):
    """Linear interpolation between neighboring vectors."""

    margin = 1

    def forward(self, series: Float[Tensor, "b s d"]) -> Float[Tensor, "b t d"]:
        following = torch.cat((series[:, 1:], series[:, -1:]), dim=1)
        part = torch.arange(self.hop, device=series.device, dtype=series.dtype)[:, None] / self.hop
        # b s 1 d, hop 1 -> b s hop d
        return torch.lerp(series[:, :, None], following[:, :, None], part).flatten(1, 2)


class LearnedUpsampling(Upsampling):
    """Transposed convolutions, each followed by a convolution over three positions; equal to repetition at first.

    Args:
        d: features of a vector.
        strides: the factor of each transposed convolution; their product is the hop.
    """

    def __init__(self, d: int, strides: Sequence[int]) -> None:
        super().__init__(d, math.prod(strides))
        self.margin = len(strides)  # each convolution over three positions reaches at most one vector further
        risers = [nn.ConvTranspose1d(d, d, stride, stride=stride) for stride in strides]
        smoothers = [nn.Conv1d(d, d, 3, padding=1, padding_mode="replicate") for _ in strides]
        for rise, smooth in zip(risers, smoothers, strict=True):
            _init_repeat_(rise)
            _init_repeat_(smooth)
        self.risers, self.smoothers = nn.ModuleList(risers), nn.ModuleList(smoothers)

    def forward(self, series: Float[Tensor, "b s d"]) -> Float[Tensor, "b t d"]:
        x = series.transpose(1, 2)
        for rise, smooth in zip(self.risers, self.smoothers, strict=True):
            x = smooth(rise(x))
        return x.transpose(1, 2)


@torch.no_grad()
def _init_repeat_(module: nn.ConvTranspose1d | nn.Conv1d) -> None:
    """Box filters of a transposed convolution, or the middle position of a convolution, for each feature by itself."""
    weight = module.weight
    eye = torch.eye(weight.shape[0], dtype=weight.dtype, device=weight.device)[:, :, None]
    if isinstance(module, nn.ConvTranspose1d):
        weight.copy_(eye.expand_as(weight))
    else:
        weight.zero_()
        weight[:, :, 1:2] = eye
    if module.bias is not None:
        module.bias.zero_()
