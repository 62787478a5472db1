"""Config of the convolutional encoder-decoder. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import Probability
from catena.outputs.config import OutputConfig, SoftmaxConfig


class ConvolutionalSeq2SeqConfig(Config):
    """Gated convolutions on both sides, with attention to the source in every decoder layer."""

    kind: Literal["convolutional"] = "convolutional"
    """Convolutional sequence to sequence (Gehring et al. 2017)."""
    d_embedding: int = Field(256, gt=0)
    """Size of the embeddings, which is also the size of the attention."""
    d: int = Field(256, gt=0)
    """Size of the vectors between the layers."""
    n_encoder_layers: int = Field(4, gt=0)
    """Number of encoder layers."""
    n_decoder_layers: int = Field(3, gt=0)
    """Number of decoder layers, each with attention to the source."""
    window: int = Field(3, ge=2)
    """Window size in positions: centered in the source, ending at its position in the target."""
    max_length: int = Field(1024, gt=0)
    """Maximum length of source and target (positions are learned)."""
    share: Literal["auto", "all", "output", "embeddings", "none"] = "auto"
    """Which tables are tied: all (source, target and output), output (target and output), embeddings (source and
    target) or none; auto is all if both sides have one vocabulary, and output if they have two."""
    dropout: Probability = 0.1
    """Probability of dropping a unit of the embeddings, of a layer's input, and of the output vector."""
    output: OutputConfig = SoftmaxConfig(smoothing=0.1)
    """The layer that predicts the next token."""
