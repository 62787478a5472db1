"""The config of a WaveNet. Does not import torch.

Tested in tests/lm/test_wavenet_build.py and tests/lm/test_wavenet_training.py.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import Probability


class WaveNetConfig(Config):
    """A language model of samples: dilated causal convolutions with gates, residual and skip connections."""

    kind: Literal["wavenet"] = "wavenet"
    """A WaveNet."""
    d: int = Field(64, gt=0)
    """Size of the vectors between the layers."""
    d_skip: int = Field(128, gt=0)
    """Size of the skip connections and of the layer before the output."""
    window: int = Field(2, ge=2)
    """Number of samples in a window, with gaps between them."""
    n_layers: int = Field(10, gt=0, le=16)
    """Number of layers of a block; their dilations are 1, 2, 4, …"""
    n_blocks: int = Field(2, gt=0)
    """Number of blocks, each starting again with dilation 1."""
    dropout: Probability = 0.0
    """Probability of dropping a gated unit."""
    n_levels: int = Field(256, ge=2, le=256)
    """Number of mu-law levels."""
    distribution: Literal["softmax", "logistic_mixture"] = "softmax"
    """The distribution of the next level: one probability for each, or a mixture of a few logistic distributions. Leave
    it out with linear_prediction."""
    n_logistics: int = Field(10, gt=0)
    """Number of distributions in a logistic mixture."""
    linear_prediction: tuple[Annotated[int, Field(gt=0, le=512)], ...] = ()
    """Orders of adaptive linear predictors, such as 32,128, whose predictions the network reads and corrects; empty for
    none. The output is then a mixture of n_logistics distributions around their predictions."""
    d_speaker: int = Field(16, gt=0)
    """Size of a speaker's vector."""
    upsampling: Literal["repeat", "linear", "learned"] = "repeat"
    """How the slower series is brought to the rate of the samples: repetition, linear interpolation, or transposed
    convolutions."""
    strides: tuple[Annotated[int, Field(gt=0)], ...] = (8, 10)
    """Factors of the transposed convolutions; their product is the number of samples for each vector of the series."""

    @property
    def hop(self) -> int:
        """The number of samples for each vector of the slower series."""
        return math.prod(self.strides)

    @property
    def field(self) -> int:
        """The receptive field: the number of samples that one prediction depends on."""
        return 1 + (self.window - 1) * self.n_blocks * (2**self.n_layers - 1)

    @model_validator(mode="after")
    def _has_predictors(self) -> WaveNetConfig:
        orders = self.linear_prediction
        if len(set(orders)) < len(orders):
            unique = ",".join(map(str, dict.fromkeys(orders)))
            raise ValueError(f"linear_prediction must have different orders, got {orders}. Use {unique}.")
        if orders and self.distribution != "softmax":
            raise ValueError(
                f"distribution must be left out with linear_prediction, got {self.distribution!r}. The output is a "
                "mixture around the predictions."
            )
        return self

    @model_validator(mode="after")
    def _has_strides(self) -> WaveNetConfig:
        if not self.strides:
            raise ValueError("strides must have at least one factor, got (). Use (8, 10) for a hop of 80 samples.")
        return self
