r"""Feature maps of pictures: the outputs of named layers of a convolutional network with fixed weights.

:class:`VGGFeatures` has the layers ``conv1_1`` … ``conv5_4`` of VGG, each after its ReLU. The weights come from
:func:`catena.encoders.vgg_weights.read_vgg`. Average pooling in place of the maximum gives smoother gradients with
respect to the picture (Gatys et al. 2016, section 2). Tested in tests/encoders/test_image_features.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from catena.errors import ConfigError, DataError

PaddingName = Literal["zeros", "reflect", "circular"]
GridPooling = Literal["average", "max"]
PreprocessingName = Literal["torchvision", "caffe", "caffe_rgb"]
PREPROCESSING: Mapping[PreprocessingName, tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]]] = {
    "torchvision": ((0, 1, 2), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "caffe": ((2, 1, 0), (103.939 / 255, 116.779 / 255, 123.68 / 255), (1 / 255,) * 3),
    "caffe_rgb": ((0, 1, 2), (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3),
}
"""Order of the channels, and mean and deviation of each, on the scale from 0 to 1. Networks converted from Caffe expect
values from 0 to 255 minus the mean, in the order blue, green, red."""


class ImageFeatures(nn.Module, ABC):
    """Abstract map of pictures in RGB, with values from 0 to 1, to the outputs of named layers."""

    names: tuple[str, ...]
    """The layers, from the first to the last."""

    def forward(
        self, x: Float[Tensor, "b 3 height width"], layers: Collection[str], padding: PaddingName = "zeros"
    ) -> dict[str, Tensor]:
        """The feature maps ``b c rows columns`` of each of the layers."""
        self.check_layers(layers)
        side = self.min_side(layers, padding)
        if min(x.shape[-2:]) < side:
            raise DataError(
                f"Height and width must be at least {side} pixels for the layer {self.last(layers)}, got "
                f"{x.shape[-2]} x {x.shape[-1]}. Use a larger picture, or fewer layers."
            )
        return self.compute(x, layers, padding)

    @abstractmethod
    def compute(
        self, x: Float[Tensor, "b 3 height width"], layers: Collection[str], padding: PaddingName
    ) -> dict[str, Tensor]:
        """The implementation of :meth:`forward`."""

    @abstractmethod
    def stride(self, layer: str) -> int:
        """The distance in pixels of two neighboring positions of a layer."""

    @abstractmethod
    def radius(self, layers: Collection[str]) -> int:
        """The largest distance in pixels at which the picture affects a position of the layers."""

    @abstractmethod
    def min_side(self, layers: Collection[str], padding: PaddingName) -> int:
        """The smallest height and width of a picture."""

    def last(self, layers: Collection[str]) -> str:
        """The last of the layers."""
        return max(layers, key=self.names.index)

    def check_layers(self, layers: Collection[str]) -> None:
        """Raise ConfigError if the network does not have one of the layers."""
        if unknown := [layer for layer in layers if layer not in self.names]:
            raise ConfigError(f"layers must be among {', '.join(self.names)}, got {unknown[0]!r}. Choose from these.")


class VGGFeatures(ImageFeatures):
    """The feature maps of VGG.

    Args:
        stages: the weight ``c_out c_in 3 3`` and the bias of each convolution, in stages with a pooling between them.
        preprocessing: the input that the weights were trained with.
        pooling: how the stages are connected; the weights were trained with ``max``.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[tuple[Tensor, Tensor]]],
        preprocessing: PreprocessingName = "torchvision",
        pooling: GridPooling = "average",
    ) -> None:
        super().__init__()
        self.pooling = pooling
        order, mean, deviation = PREPROCESSING[preprocessing]
        self.order = list(order)
        self.names = tuple(f"conv{s + 1}_{i + 1}" for s, stage in enumerate(stages) for i in range(len(stage)))
        self._stage = {name: int(name[4]) - 1 for name in self.names}
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("deviation", torch.tensor(deviation)[:, None, None])
        for name, (weight, bias) in zip(self.names, (layer for stage in stages for layer in stage), strict=True):
            self.register_buffer(f"{name}_weight", weight)
            self.register_buffer(f"{name}_bias", bias)

    def compute(
        self, x: Float[Tensor, "b 3 height width"], layers: Collection[str], padding: PaddingName
    ) -> dict[str, Tensor]:
        x = (x[:, self.order] - self.get_buffer("mean")) / self.get_buffer("deviation")
        found: dict[str, Tensor] = {}
        stage = 0
        for name in self._needed(layers):
            if self._stage[name] > stage:
                x = F.avg_pool2d(x, 2) if self.pooling == "average" else F.max_pool2d(x, 2)
                stage += 1
            x = self._convolve(x, name, padding)
            if name in layers:
                found[name] = x
        return found

    def _convolve(self, x: Tensor, name: str, padding: PaddingName) -> Tensor:
        weight, bias = self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")
        if padding == "zeros":  # without a padded copy, which would be kept for the gradient
            return F.relu(F.conv2d(x, weight, bias, padding=1))
        return F.relu(F.conv2d(pad_borders(x, 1, padding), weight, bias))

    def stride(self, layer: str) -> int:
        return 2 ** self._stage[layer]

    def radius(self, layers: Collection[str]) -> int:
        # A pooling window at stride s adds s pixels on one side.
        return sum(map(self.stride, self._needed(layers))) + self.stride(self.last(layers)) - 1

    def min_side(self, layers: Collection[str], padding: PaddingName) -> int:
        return 2 * self.stride(self.last(layers))

    def _needed(self, layers: Collection[str]) -> tuple[str, ...]:
        return self.names[: self.names.index(self.last(layers)) + 1]


def pad_borders(x: Float[Tensor, "b c height width"], n: int, padding: PaddingName) -> Float[Tensor, "b c _ _"]:
    """The maps with ``n`` more rows and columns on each side: zeros, a reflection, or the opposite side."""
    return F.pad(x, (n, n, n, n), mode="constant" if padding == "zeros" else padding)
