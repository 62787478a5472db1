"""Picture encoders from their configs, and networks that classify pictures.

``build_image_encoder`` returns an :class:`catena.encoders.image_base.ImageEncoder`. Register a new kind in
``IMAGE_ENCODERS`` under its ``kind``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from catena.encoders.image_base import ImageEncoder, PixelNorm
from catena.encoders.image_config import GoogLeNetConfig, HighwayImageConfig, ImageEncoderConfig
from catena.encoders.image_highway import DenseHighwayImageEncoder, HighwayImageEncoder
from catena.encoders.image_inception import AuxiliaryClassifier, GoogLeNet, early_grid
from catena.encoders.image_plain import VGG, AlexNet
from catena.encoders.image_residual import ResNet
from catena.registry import Registry

IMAGE_ENCODERS: Registry[Callable[[Any, tuple[int, int], int], ImageEncoder]] = Registry("picture encoder")
IMAGE_ENCODERS.register("alexnet")(AlexNet)
IMAGE_ENCODERS.register("vgg")(VGG)
IMAGE_ENCODERS.register("googlenet")(lambda config, size, c_in: GoogLeNet(config, c_in))
IMAGE_ENCODERS.register("resnet")(lambda config, size, c_in: ResNet(config, c_in))


@IMAGE_ENCODERS.register("highway_image")
def _build_highway(config: HighwayImageConfig, size: tuple[int, int], c_in: int) -> ImageEncoder:
    if config.form == "dense":
        return DenseHighwayImageEncoder(config, size, c_in)
    return HighwayImageEncoder(config, c_in)


def build_image_encoder(config: ImageEncoderConfig, size: tuple[int, int], c_in: int = 3) -> ImageEncoder:
    """The encoder of a config for pictures of ``size`` = height, width with ``c_in`` channels.

    Args:
        config: the kind of network and its options.
        size: height and width of the pictures.
        c_in: number of channels of the pictures.
    """
    return IMAGE_ENCODERS[config.kind](config, size, c_in)


@dataclass(frozen=True, eq=False)
class ImageScores:
    """Scores of pictures, and of the auxiliary classifiers in training."""

    scores: Float[Tensor, "b k"]
    auxiliary: tuple[Tensor, ...] = field(default=())


class ImageNetwork(nn.Module):
    """Scores of ``k`` classes from pictures with values from 0 to 1.

    Args:
        config: the encoder.
        size: height and width of the pictures.
        k: number of classes.
        c_in: number of channels.
    """

    def __init__(self, config: ImageEncoderConfig, size: tuple[int, int], k: int, c_in: int = 3) -> None:
        super().__init__()
        self.norm = PixelNorm(c_in)
        self.encoder = build_image_encoder(config, size, c_in)
        self.head = nn.Linear(self.encoder.d_out, k)
        self.auxiliary = nn.ModuleList()
        if isinstance(config, GoogLeNetConfig) and config.auxiliary:
            assert isinstance(self.encoder, GoogLeNet)
            grid = early_grid(config, size)
            self.auxiliary.extend(AuxiliaryClassifier(c, k, grid, config.width) for c in self.encoder.early_channels)

    def forward(self, x: Float[Tensor, "b c height width"]) -> ImageScores:
        x = self.norm(x)
        if not (self.training and len(self.auxiliary)):
            return ImageScores(self.head(self.encoder(x)))
        assert isinstance(self.encoder, GoogLeNet)
        grid, early = self.encoder.convolve_early(x)
        auxiliary = tuple(classify(x) for classify, x in zip(self.auxiliary, early, strict=True))
        return ImageScores(self.head(self.encoder.pool(grid)), auxiliary)
