"""Config of the Transformer encoder-decoder. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import ActivationName, Probability
from catena.outputs.config import OutputConfig, SoftmaxConfig


class TransformerSeq2SeqConfig(Config):
    """A Transformer: self-attention on both sides, and attention to the source in every decoder layer."""

    kind: Literal["transformer"] = "transformer"
    """A Transformer (Vaswani et al. 2017)."""
    d: int = Field(256, gt=0)
    """Size of the vectors between the layers, and of the embeddings."""
    n_heads: int = Field(4, gt=0)
    """Number of heads of every attention."""
    n_encoder_layers: int = Field(3, gt=0)
    """Number of encoder layers."""
    n_decoder_layers: int = Field(3, gt=0)
    """Number of decoder layers; fewer of them translate faster."""
    d_ff: int = Field(1024, gt=0)
    """Units of the feed-forward layers."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sublayer, which needs little or no warm-up, or after it, as in the original paper."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Position embeddings: sinusoidal or learned vectors are added to the embeddings; rotary rotates the queries and
    keys of self-attention."""
    max_length: int = Field(512, gt=0)
    """Maximum length of source and target with learned positions."""
    activation: ActivationName = "relu"
    """Activation of the feed-forward layers."""
    share: Literal["auto", "all", "output", "embeddings", "none"] = "auto"
    """Which tables are tied: all (source, target and output), output (target and output), embeddings (source and
    target) or none; auto is all if both sides have one vocabulary, and output if they have two."""
    dropout: Probability = 0.1
    """Probability of dropping a unit of the embeddings with their positions, and of the output of each sublayer."""
    attention_dropout: Probability = 0.0
    """Probability of dropping an attention weight."""
    ff_dropout: Probability = 0.0
    """Probability of dropping a unit within the feed-forward layers."""
    init: Literal["xavier", "depth_scaled"] = "xavier"
    """Initialization of the weights; depth_scaled divides those of layer l by the square root of l."""
    output: OutputConfig = SoftmaxConfig(smoothing=0.1)
    """The layer that predicts the next token."""

    @model_validator(mode="after")
    def _fits(self) -> TransformerSeq2SeqConfig:
        if self.d % self.n_heads:
            lower = self.d - self.d % self.n_heads
            near = f"{lower} or {lower + self.n_heads}" if lower else f"{self.n_heads}"
            raise ValueError(
                f"d must be divisible by n_heads = {self.n_heads}, got {self.d}. Use {near}, or another n_heads."
            )
        if self.positions == "rotary" and self.d // self.n_heads % 2:
            raise ValueError(
                f"d / n_heads must be even for positions = 'rotary', got {self.d} / {self.n_heads} = "
                f"{self.d // self.n_heads}. Use d = {self.d + self.n_heads}."
            )
        tree = self.output.tree if self.output.kind == "hierarchical" else "classes"
        if tree != "classes" and self.share not in ("embeddings", "none"):
            raise ValueError(
                f"share must be 'embeddings' or 'none' for output.tree = {tree!r}, which has no weights for each word, "
                f"got {self.share!r}. Change share, or set "
                "output.tree = 'classes'."
            )
        return self
