"""Settings of the convolutional encoder-decoder. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from catena.config import Config
from catena.encoders.config import Probability
from catena.outputs.config import OutputConfig, SoftmaxConfig


class ConvolutionalSeq2SeqConfig(Config):
    """Gated convolution on both sides, and a look at the source in every layer that writes."""

    kind: Literal["convolutional"] = "convolutional"
    """Convolutional sequence to sequence (Gehring et al. 2017)."""
    d_embedding: int = Field(256, gt=0)
    """Features of the embeddings; the decoder looks at the source in this size."""
    d: int = Field(256, gt=0)
    """Features of each vector between the layers."""
    n_encoder_layers: int = Field(4, gt=0)
    """Layers that read the source."""
    n_decoder_layers: int = Field(3, gt=0)
    """Layers that write the target, each of which looks at the source."""
    window: int = Field(3, ge=2)
    """Positions that a window reads: centered in the source, ending at its position in the target."""
    max_length: int = Field(1024, gt=0)
    """Longest source and target: positions are learned."""
    share: Literal["auto", "all", "output", "embeddings", "none"] = "auto"
    """Which tables are one: all (source, target and output), output (target and output), embeddings (source and
    target) or none; auto is all where both sides have one vocabulary, and output where they have two."""
    dropout: Probability = 0.1
    """Probability of dropping a unit of the embeddings, of what a layer reads, and of what predicts."""
    output: OutputConfig = SoftmaxConfig(smoothing=0.1)
    """The layer that predicts the next token."""
