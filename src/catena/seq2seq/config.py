"""Configs of encoder-decoders: typed values, selected by ``kind``. Does not import torch.

``EncoderDecoderConfig`` is the union of those that translate. Tested in tests/seq2seq.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.encoders.config import (
    ActivationName,
    CellName,
    EncoderConfig,
    Probability,
    RecurrentConfig,
    ScoreName,
    TransformerConfig,
)
from catena.outputs.config import OutputConfig, SoftmaxConfig

RuleName = Literal["any", "some", "order", "ring", "triples"]


class PointerNetworkConfig(Config):
    """A pointer network: an encoder reads the input, a decoder points at its positions one after another."""

    kind: Literal["pointer"] = "pointer"
    """A pointer network."""
    d: int = Field(128, gt=0)
    """Size of the vector of a point or token before the encoder."""
    encoder: EncoderConfig = TransformerConfig(d=128, n_heads=8, n_layers=3, positions="none", dropout=0.0)
    """The input encoder. A Transformer without positions encodes a set: its output does not depend on the order of the
    points. A recurrent one reads them in order, as in the original paper."""
    decoder: EncoderConfig = RecurrentConfig(d=128, bidirectional=False)
    """The decoder over the positions so far; it must be causal."""
    score: ScoreName = "additive"
    """Attention score of a position and the decoder's state."""
    glimpses: int = Field(1, ge=0)
    """Number of glimpses at the remaining positions before the decoder points; 0 as in the original paper."""
    dropout: Probability = 0.0
    """Probability of dropping a unit of the decoder's inputs and of its states."""


class CopyNetConfig(Config):
    """CopyNet: a recurrent encoder-decoder that generates words of its vocabulary and copies words of the source."""

    kind: Literal["copy"] = "copy"
    """An encoder-decoder that copies."""
    encoder: EncoderConfig = RecurrentConfig(d=128)
    """The source encoder."""
    cell: CellName = "lstm"
    """The recurrent cell of the decoder."""
    d: int = Field(256, gt=0)
    """Units of the decoder."""
    d_embedding: int = Field(256, gt=0)
    """Size of a token vector."""
    attention: ScoreName = "additive"
    """Attention score of a decoder state and an encoder state."""
    selective: bool = True
    """Selective reading: with a token that occurs in the source, the decoder also reads the source states there."""
    dropout: Probability = 0.2
    """Probability of dropping a feature of an embedding, or a unit before the output."""


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


class ScheduledSamplingConfig(Config):
    """Scheduled sampling: how often training reads the model's own predictions instead of gold tokens."""

    schedule: Literal["none", "linear", "exponential", "inverse_sigmoid"] = "none"
    """How the probability of reading the gold token decreases with the training steps: max(least, k - c · step);
    k ^ step; or k / (k + exp(step / k))."""
    k: float = Field(1.0, gt=0)
    """The start of a linear schedule; below 1 for an exponential one, such as 0.9999; larger is slower for the inverse
    sigmoid, such as 2000."""
    c: float = Field(0.0, ge=0)
    """Decrease of a linear schedule with each step."""
    least: float = Field(0.0, ge=0, le=1)
    """Minimum of the probability."""
    way: Literal["steps", "passes"] = "steps"
    """steps samples each token from the model's output so far, one decoder step at a time; passes reads the
    gold target first, samples all tokens from that, and reads the mixture, which is faster."""

    @model_validator(mode="after")
    def _fits(self) -> ScheduledSamplingConfig:
        if self.schedule == "linear" and self.k > 1:
            raise ValueError(f"k must be at most 1 for a linear schedule, got {self.k}. Use a probability such as 1.")
        if self.schedule == "exponential" and self.k >= 1:
            raise ValueError(f"k must be below 1 for an exponential schedule, got {self.k}. Use one such as 0.9999.")
        if self.schedule == "inverse_sigmoid" and self.k < 1:
            raise ValueError(f"k must be at least 1 for inverse_sigmoid, got {self.k}. Use a value such as 2000.")
        return self


_AttentionKind = Literal[
    "soft", "hard_straight_through", "hard_sampled", "marginal", "local_monotonic", "local_predictive"
]


_EXACT = ("softmax", "adaptive", "hierarchical")
"""Kinds of output layers whose loss is -log p."""


class RecurrentSeq2SeqConfig(Config):
    """A recurrent encoder-decoder, with attention or without."""

    kind: Literal["recurrent"] = "recurrent"
    """A recurrent encoder-decoder."""
    encoder: Literal["recurrent", "additive"] = "recurrent"
    """The source encoder: the recurrent cell, or additive, h + tanh(W x), a cumulative sum from the left."""
    cell: CellName = "lstm"
    """The recurrent cell of both sides. lstm, gru and elman use torch's fused implementations."""
    d: int = Field(256, gt=0)
    """Units of each layer; bidirectional encoder layers have half of them in each direction."""
    d_embedding: int = Field(256, gt=0)
    """Size of a token vector."""
    n_layers: int = Field(1, gt=0)
    """Number of layers of the encoder, and of the decoder."""
    bidirectional: Literal["all", "first", "none"] = "all"
    """Which encoder layers are bidirectional."""
    reverse: bool = False
    """Read the source in reverse, so that the first words of both sides are close (Sutskever et al.
    2014)."""
    residual: bool = False
    """Layers from the third on add their input to their output, which helps deep stacks train (GNMT)."""
    bridge: Literal["copy", "map", "mean", "zero"] = "copy"
    """Initial state of the decoder: the encoder's last states layer by layer, unchanged (copy) or projected (map); the
    projected mean of its states; or zero."""
    attention: Literal["none"] | ScoreName = "additive"
    """Attention score of a decoder state and an encoder state; none has no attention."""
    attention_kind: _AttentionKind = "soft"
    """soft attends to the whole source. One position: the best one with the soft gradient (hard_straight_through), one
    sampled in training with a baseline (hard_sampled), or the exact sum over all (marginal). A window: around the
    target's own position (local_monotonic) or around a predicted one (local_predictive)."""
    window: int = Field(10, gt=0)
    """Number of positions to the left and right in local attention."""
    n_heads: int = Field(1, gt=0)
    """Number of attention heads; several have their own projections."""
    d_attention: int | None = Field(None, gt=0)
    """Hidden units of the additive and hadamard scores; the size of the queries if not set."""
    order: Literal["luong", "bahdanau", "gnmt"] = "luong"
    """luong steps and then attends; bahdanau attends with the state before the step, which reads the context; gnmt does
    so with the lowest layer, and all layers read the context."""
    input_feeding: bool = True
    """In Luong's order: read the last attentional vector together with the token. Training is faster without it."""
    output: OutputConfig = SoftmaxConfig()
    """The output layer over the target vocabulary."""
    tied: bool = True
    """Use the weights of the target embedding in the output layer."""
    shared: bool = False
    """Use one embedding for source and target, which needs one vocabulary for both."""
    sampling: ScheduledSamplingConfig = ScheduledSamplingConfig()
    """Scheduled sampling."""
    dropout: Probability = 0.3
    """Probability of dropping a feature of an embedding, a unit between layers, or a unit before the output."""

    @model_validator(mode="before")
    @classmethod
    def _untie(cls, data: Any) -> Any:
        """Set tied = false by default if weights cannot be tied; an explicit tied = true raises an error below."""
        if not isinstance(data, dict) or "tied" in data:
            return data
        output = data.get("output")
        values = output if isinstance(output, dict) else getattr(output, "__dict__", {})
        decisions = values.get("kind") == "hierarchical" and values.get("tree") != "classes"
        return {**data, "tied": False} if decisions else data

    @model_validator(mode="after")
    def _fits(self) -> RecurrentSeq2SeqConfig:
        problems = [*self._sizes_that_do_not_fit(), *self._looks_that_do_not_fit()]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _sizes_that_do_not_fit(self) -> Iterator[str]:
        if self.bidirectional != "none" and self.d % 2:
            yield (
                f"d must be even for bidirectional = {self.bidirectional!r}, got {self.d}. Use {self.d + 1}, or "
                f"bidirectional = 'none'."
            )
        if self.d % self.n_heads:
            yield (f"d must be divisible by n_heads = {self.n_heads}, got {self.d}. Use another d or n_heads.")
        if self.residual and self.n_layers < 3:
            yield (
                f"n_layers must be at least 3 if residual = true, got {self.n_layers}. Raise n_layers, or set residual "
                "= false."
            )
        tree = self.output.tree if self.output.kind == "hierarchical" else "classes"
        if self.tied and tree != "classes":
            yield (
                f"output.tree must be 'classes' if tied = true, got {tree!r}, which has no weights for each word. "
                "Remove tied, or set output.tree = 'classes'."
            )

    def _looks_that_do_not_fit(self) -> Iterator[str]:
        if self.attention == "none" and self.attention_kind != "soft":
            yield (
                f"attention must be a score for attention_kind = {self.attention_kind!r}, got 'none'. Set attention = "
                "'additive', for example."
            )
        if self.attention_kind == "marginal" and (self.order != "luong" or self.input_feeding or self.n_heads > 1):
            yield (
                "order, input_feeding and n_heads must be 'luong', false and 1 for attention_kind = 'marginal', whose "
                f"steps do not depend on earlier attention, got {self.order!r}, {str(self.input_feeding).lower()} and "
                f"{self.n_heads}. Set order = 'luong', input_feeding = false and n_heads = 1."
            )
        smoothing = self.output.smoothing if self.output.kind == "softmax" else 0.0
        if self.attention_kind in ("marginal", "hard_sampled") and (smoothing or self.output.kind not in _EXACT):
            yield (
                f"output.kind must be {' or '.join(map(repr, _EXACT))} without smoothing for attention_kind = "
                f"{self.attention_kind!r}, which needs log-probabilities, got {self.output.kind!r} with smoothing = "
                f"{smoothing:g}. Change output.kind, and set output.smoothing = 0."
            )


EncoderDecoderConfig = Annotated[
    RecurrentSeq2SeqConfig | TransformerSeq2SeqConfig | ConvolutionalSeq2SeqConfig | CopyNetConfig,
    Field(discriminator="kind"),
]
