r"""The interface of picture encoders: pictures in, a grid of vectors or one vector for each picture out.

Tested in tests/encoders/test_images.py with the laws of ``tests/laws/image_laws.py``: the result for a picture does not
depend on the rest of the batch in evaluation, saving and loading is the identity, and gradients reach every parameter.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.shapes import match_shape


class ImageEncoder(nn.Module, ABC):
    """Abstract map of ``b c height width`` to ``b d_out``; subclasses set the sizes and define both steps."""

    c_in: int
    d_map: int
    """Number of channels of the grid."""
    d_out: int

    def forward(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_out"]:
        """One vector for each picture."""
        return self.pool(self.encode_grid(x))

    def encode_grid(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        """The last convolutional layer: one vector for each part of the picture."""
        match_shape("the pictures", tuple(x.shape), "b c height width", c=self.c_in)
        return self.convolve(x)

    @abstractmethod
    def convolve(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d_map rows columns"]:
        """The implementation of :meth:`encode_grid`."""

    @abstractmethod
    def pool(self, grid: Float[Tensor, "b d_map rows columns"]) -> Float[Tensor, "b d_out"]:
        """One vector for each grid."""


class ConvolutionUnit(nn.Sequential):
    """A convolution, optionally batch normalization, and optionally a ReLU; without a bias before the norm."""

    def __init__(
        self,
        c_in: int,
        c_out: int,
        window: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        batch_norm: bool = False,
        relu: bool = True,
    ) -> None:
        convolution = nn.Conv2d(c_in, c_out, window, stride=stride, padding=padding, groups=groups, bias=not batch_norm)
        parts: list[nn.Module] = [convolution]
        parts += [nn.BatchNorm2d(c_out)] if batch_norm else []
        parts += [nn.ReLU(inplace=True)] if relu else []
        super().__init__(*parts)


class DenseHead(nn.Sequential):
    """The two dense layers of AlexNet and VGG over the whole grid: dropout, linear, ReLU, twice."""

    def __init__(self, d_in: int, d: int, dropout: float, *, dropout_first: bool) -> None:
        before, after = (nn.Dropout(dropout), nn.Identity()) if dropout_first else (nn.Identity(), nn.Dropout(dropout))
        super().__init__(
            nn.Flatten(), before, nn.Linear(d_in, d), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d, d), nn.ReLU(), after
        )


class PixelNorm(nn.Module):
    """Each channel minus its mean, divided by its deviation; both come from the training set and are saved."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, c: int = 3) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((c,), 0.5))
        self.register_buffer("deviation", torch.full((c,), 0.25))

    @torch.no_grad()
    def set(self, mean: Float[Tensor, " c"], deviation: Float[Tensor, " c"]) -> None:
        """Set the statistics, on the scale from 0 to 1; a constant channel is only centered."""
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > 1e-6, deviation, 1.0))

    def forward(self, x: Float[Tensor, "b c height width"]) -> Float[Tensor, "b c height width"]:
        return (x - self.mean[:, None, None]) / self.deviation[:, None, None]


def scale_channels(c: int, width: float, groups: int = 1) -> int:
    """``c`` channels times ``width``, at least 1 in each group and divisible by the number of groups."""
    return max(groups, groups * round(c * width / groups))


@torch.no_grad()
def init_he_(module: nn.Module) -> None:
    """Draw weights of convolutions from N(0, 2 / fan out) and of linear layers from N(0, 2 / fan in); biases are 0.

    He et al. 2015, equations 10 and 14.
    """
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(part, nn.Linear):
            part.weight.normal_(0, math.sqrt(2 / part.in_features))
        if isinstance(part, nn.Conv2d | nn.Linear) and part.bias is not None:
            part.bias.zero_()
