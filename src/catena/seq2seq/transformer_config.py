"""Settings of the Transformer encoder-decoder. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import ActivationName, Probability
from catena.outputs.config import OutputConfig, SoftmaxConfig


class TransformerSeq2SeqConfig(Config):
    """A Transformer: self-attention on both sides, and a decoder that looks at the source in every layer."""

    kind: Literal["transformer"] = "transformer"
    """A Transformer (Vaswani et al. 2017)."""
    d: int = Field(256, gt=0)
    """Features of each vector between the layers, and of the embeddings."""
    n_heads: int = Field(4, gt=0)
    """Heads of every attention."""
    n_encoder_layers: int = Field(3, gt=0)
    """Layers that read the source."""
    n_decoder_layers: int = Field(3, gt=0)
    """Layers that write the target; fewer of them translate faster."""
    d_ff: int = Field(1024, gt=0)
    """Units of the feed-forward layers."""
    norm: Literal["pre", "post"] = "pre"
    """Normalize before each part, which trains with a short warm-up or none, or after it, as in the first paper."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """How the positions are told apart: waves added to the embeddings, learned vectors added to them, or turns of the
    queries and keys of self-attention."""
    max_length: int = Field(512, gt=0)
    """Longest source and target that learned positions allow."""
    activation: ActivationName = "relu"
    """Activation of the feed-forward layers."""
    share: Literal["auto", "all", "output", "embeddings", "none"] = "auto"
    """Which tables are one: all (source, target and output), output (target and output), embeddings (source and
    target) or none; auto is all where both sides have one vocabulary, and output where they have two."""
    dropout: Probability = 0.1
    """Probability of dropping a unit of the embeddings with their positions, and of what each part adds."""
    attention_dropout: Probability = 0.0
    """Probability of dropping a weight of an attention."""
    ff_dropout: Probability = 0.0
    """Probability of dropping a unit within the feed-forward layers."""
    init: Literal["xavier", "depth_scaled"] = "xavier"
    """First values of the weights; depth_scaled makes those of layer l smaller by the square root of l."""
    output: OutputConfig = SoftmaxConfig(smoothing=0.1)
    """The layer that predicts the next token."""

    @model_validator(mode="after")
    def _fits(self) -> TransformerSeq2SeqConfig:
        if self.d % self.n_heads:
            lower = self.d - self.d % self.n_heads
            near = f"{lower} or {lower + self.n_heads}" if lower else f"{self.n_heads}"
            raise ValueError(
                f"d = {self.d} cannot be shared by n_heads = {self.n_heads}: "
                f"choose a d that n_heads divides, such as {near}"
            )
        if self.positions == "rotary" and self.d // self.n_heads % 2:
            raise ValueError(
                f"positions = 'rotary' turns pairs of features, but d = {self.d} over n_heads = {self.n_heads} leaves "
                f"{self.d // self.n_heads} for each head, an odd number: choose d = {self.d + self.n_heads}"
            )
        tree = self.output.tree if self.output.kind == "hierarchical" else "classes"
        if tree != "classes" and self.share not in ("embeddings", "none"):
            raise ValueError(
                f"output.tree = {tree!r} has weights for each decision, not for each word, so that share = "
                f"{self.share!r} cannot tie them: set share = 'embeddings' or 'none', or choose "
                "output.tree = 'classes'"
            )
        return self
