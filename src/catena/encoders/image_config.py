"""Configs of the encoders of pictures. Does not import torch.

Each network has its published form for pictures of 224 pixels and a small form for pictures of about 32 pixels, which
keeps the structure and drops the early strides.

Tested in tests/encoders/test_images.py and tests/encoders/test_convolution_facts.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import ActivationName, Probability

_Width = Annotated[float, Field(gt=0)]


class AlexNetConfig(Config):
    """AlexNet: five convolutions with local response normalization and two groups, and two dense layers."""

    kind: Literal["alexnet"] = "alexnet"
    """AlexNet (Krizhevsky et al. 2012)."""
    small: bool = False
    """Stride 1 and smaller windows in the first layer, for pictures of about 32 pixels."""
    width: _Width = 1.0
    """Factor of the number of channels."""
    d_dense: int = Field(4096, gt=0)
    """Units of the two dense layers."""
    dropout: Probability = 0.5
    """Probability of dropping a unit of a dense layer."""
    init: Literal["he", "normal"] = "he"
    """he: normal with variance 2 / fan out; normal: deviation 0.01 and biases of 1 in layers 2, 4, 5 and the dense
    ones, as in the paper."""


class VGGConfig(Config):
    """VGG: stacks of 3x3 convolutions between poolings, and two dense layers."""

    kind: Literal["vgg"] = "vgg"
    """VGG (Simonyan & Zisserman 2015)."""
    variant: Literal["A", "B", "D", "E"] = "D"
    """Column of the paper's table 1: A has 11 layers, B 13, D 16 and E 19."""
    batch_norm: bool = False
    """Batch normalization after each convolution, with which the deep variants train from scratch."""
    width: _Width = 1.0
    """Factor of the number of channels."""
    d_dense: int = Field(4096, gt=0)
    """Units of the two dense layers."""
    dropout: Probability = 0.5
    """Probability of dropping a unit of a dense layer."""


class GoogLeNetConfig(Config):
    """GoogLeNet: nine inception blocks, each with four branches of different window sizes."""

    kind: Literal["googlenet"] = "googlenet"
    """GoogLeNet, also called Inception v1 (Szegedy et al. 2015)."""
    small: bool = False
    """One 3x3 convolution in place of the strided stem, for pictures of about 32 pixels."""
    width: _Width = 1.0
    """Factor of the number of channels."""
    batch_norm: bool = False
    """Batch normalization after each convolution."""
    auxiliary: bool = True
    """Two auxiliary classifiers in training, after blocks 4a and 4d."""
    auxiliary_weight: float = Field(0.3, ge=0)
    """Weight of their losses."""
    dropout: Probability = 0.4
    """Probability of dropping a unit of the output."""


class ResNetConfig(Config):
    """A residual network, or the plain network of the same layers."""

    kind: Literal["resnet"] = "resnet"
    """ResNet (He et al. 2016)."""
    depth: int = Field(20, gt=0)
    """Number of layers with weights: 6 n + 2 in the small form (20, 32, 56, 110), or 2 n stages + 2; otherwise 18, 34,
    50, 101 or 152."""
    small: bool = True
    """The form for pictures of 32 pixels (section 4.2 of the paper); false for the form of 224 pixels."""
    stages: int = Field(3, gt=0)
    """Number of stages of the small form. Each stage after the first halves the grid and doubles the channels; 4 suits
    pictures of 64 pixels."""
    width: int | None = Field(None, gt=0)
    """Channels of the first stage; 16 in the small form and 64 otherwise, if not set."""
    residual: bool = True
    """Add the input of each block to its output; false gives the plain network."""
    shortcut: Literal["A", "B"] | None = None
    """Shortcut between stages: A pads with zeros and has no parameters, B is a 1x1 convolution. A in the small form and
    B otherwise, if not set."""
    zero_gamma: bool = False
    """Start the last scale of each block at 0, so that a new network has only shortcuts."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of the output."""

    @model_validator(mode="after")
    def _fits(self) -> ResNetConfig:
        layers = 2 * self.stages  # two in each block
        if self.small and (self.depth < layers + 2 or (self.depth - 2) % layers):
            near = max(1, round((self.depth - 2) / layers))
            also = "" if self.stages == 3 else f" and stages = {self.stages}"
            raise ValueError(
                f"depth must be {layers} n + 2 if small = true{also}, got {self.depth}. Use {layers * near + 2}."
            )
        if not self.small and self.stages != 3:
            raise ValueError(f"stages can be set only if small = true, got {self.stages}. Remove it.")
        if not self.small and self.depth not in RESNET_STAGES:
            raise ValueError(
                f"depth must be 18, 34, 50, 101 or 152 if small = false, got {self.depth}. Use 50, or set small = true."
            )
        return self


RESNET_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Number of blocks in each stage of the full form; from 50 layers on they are bottlenecks."""


class HighwayImageConfig(Config):
    """A highway network for pictures: gates choose between a new value and the old one."""

    kind: Literal["highway_image"] = "highway_image"
    """A highway network (Srivastava et al. 2015)."""
    form: Literal["convolution", "dense"] = "convolution"
    """convolution: three stages of highway convolutions with poolings between them; dense: highway layers over all
    pixels."""
    n_layers: int = Field(18, gt=0)
    """Number of highway layers; in the form of convolutions divisible by 3."""
    d: int = Field(32, gt=0)
    """Channels of the first stage, doubled in each following one; units of each layer in the dense form."""
    batch_norm: bool = False
    """Batch normalization of the new value in the form of convolutions."""
    activation: ActivationName = "relu"
    """Activation of the new value."""
    bias: float = Field(-2.0, lt=0)
    """Initial bias of the gates: from -1 for 10 layers to -4 for 50 and more."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of the output."""

    @model_validator(mode="after")
    def _fits(self) -> HighwayImageConfig:
        if self.form == "convolution" and self.n_layers % 3:
            near = 3 * max(1, round(self.n_layers / 3))
            raise ValueError(f"n_layers must be divisible by 3, got {self.n_layers}. Use {near}, or form = 'dense'.")
        return self


ImageEncoderConfig = Annotated[
    AlexNetConfig | VGGConfig | GoogLeNetConfig | ResNetConfig | HighwayImageConfig, Field(discriminator="kind")
]
