"""Settings of encoders and poolings: typed values, checked before any data is touched. Imports no torch.

``EncoderConfig`` is any of them, told apart by ``kind``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

ActivationName = Literal[
    "identity",
    "relu",
    "leaky_relu",
    "prelu",
    "abs",
    "hard_tanh",
    "tanh",
    "sigmoid",
    "gelu",
    "elu",
    "selu",
    "softplus",
    "softsign",
    "swish",
]
CellName = Literal["elman", "leaky", "lstm", "peephole_lstm", "coupled_lstm", "gru", "gru_reset_first"]
InitName = Literal["default", "identity", "orthogonal", "xavier", "he", "depth_scaled"]
ScoreName = Literal["dot", "scaled", "cosine", "bilinear", "additive", "hadamard", "concat", "concat_product"]
_NormName = Literal["none", "batch", "layer"]
PoolingName = Literal["last", "first_last", "ends", "max", "min", "mean", "attention", "k_max"]
Probability = Annotated[float, Field(ge=0, lt=1)]
_Windows = Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]


class RecurrentConfig(Config):
    """A recurrent network: simple, leaky, LSTM and GRU, stacked, in one direction or both."""

    kind: Literal["recurrent"] = "recurrent"
    """A recurrent encoder."""
    cell: CellName = "lstm"
    """The recurrence. gru applies the reset gate after the product, as torch's fused one; gru_reset_first
    before it."""
    d: int = Field(100, gt=0)
    """Units of each layer in each direction."""
    n_layers: int = Field(1, gt=0)
    """Layers, each reading the states of the one below."""
    bidirectional: bool = True
    """Read the sequence from both ends and join the states; the output is then twice as wide."""
    activation: ActivationName = "tanh"
    """Activation of the elman and leaky cells; the others have tanh."""
    peephole: Literal["full", "diagonal"] = "diagonal"
    """How the gates of peephole_lstm see the memory: by a full matrix, or each unit its own alone."""
    leak: float = Field(0.5, gt=0, le=1)
    """Share of the new value in a leaky unit; 1 keeps nothing of the old one. Learned, it starts here."""
    learn_leak: bool = False
    """Learn the share of each leaky unit."""
    connections: Literal["none", "residual", "skip"] = "none"
    """Between layers: residual adds a layer's input to its output where the sizes agree; skip feeds the
    encoder's input to every layer and joins the states of all layers in the output."""
    dropout: Probability = 0.0
    """Probability of dropping a unit between two layers."""
    locked: bool = False
    """Drop the same units at every step of a sequence (variational dropout)."""
    weight_dropout: Probability = 0.0
    """Probability of dropping a recurrent weight, for all steps of a sequence alike."""
    init: InitName = "default"
    """First values of the weights. identity and orthogonal speak of the recurrent matrices."""
    forget_bias: float | None = 1.0
    """First bias of the forget gate of an LSTM; 'none' leaves it as drawn."""

    @model_validator(mode="after")
    def _fits(self) -> RecurrentConfig:
        if self.activation != "tanh" and self.cell not in ("elman", "leaky"):
            raise ValueError(
                f"activation = {self.activation!r} is not used by cell = {self.cell!r}, "
                "whose formulas have tanh: leave activation out, or choose cell = 'elman' or 'leaky'"
            )
        if self.learn_leak and self.cell != "leaky":
            raise ValueError(
                f"learn_leak = true is for cell = 'leaky', but cell is {self.cell!r}: "
                "leave it out, or choose cell = 'leaky'"
            )
        if self.learn_leak and self.leak == 1:
            raise ValueError(
                "leak = 1 is the end of the range and cannot be learned: start below it, such as leak = 0.9"
            )
        return self


class SelfAttentiveRecurrentConfig(Config):
    """A recurrent network whose every state looks at all the states and takes in what it finds."""

    kind: Literal["self_attentive_recurrent"] = "self_attentive_recurrent"
    """A recurrent encoder that attends to its own states."""
    recurrent: RecurrentConfig = RecurrentConfig()
    """The recurrence whose states are attended to."""
    score: ScoreName = "scaled"
    """How well two states fit."""
    causal: bool = False
    """Look at no state of the future."""

    @model_validator(mode="after")
    def _fits(self) -> SelfAttentiveRecurrentConfig:
        if self.causal and self.recurrent.bidirectional:
            raise ValueError(
                "causal = true cannot hold with recurrent.bidirectional = true, whose states have seen the "
                "future: set recurrent.bidirectional = false"
            )
        return self


class ConvolutionConfig(Config):
    """Convolution over the positions with windows of several sizes; one vector for each position."""

    kind: Literal["convolution"] = "convolution"
    """A convolutional encoder."""
    windows: _Windows = (3, 4, 5)
    """Sizes of the windows, in positions."""
    filters: int = Field(100, gt=0)
    """Filters for each size of window."""
    n_layers: int = Field(1, gt=0)
    """Layers, each reading the output of the one below."""
    padding: Literal["same", "causal"] = "same"
    """same centers the window on its position; causal ends it there, so that the future is not seen."""
    activation: ActivationName = "relu"
    """Activation after each convolution."""
    norm: _NormName = "none"
    """Normalization before the activation."""
    residual: bool = False
    """Add a layer's input to its output where the sizes agree."""
    dropout: Probability = 0.0
    """Probability of dropping a unit between two layers."""


class DilatedConfig(Config):
    """Causal convolution with gaps that double from layer to layer, gates and ways round (WaveNet)."""

    kind: Literal["dilated"] = "dilated"
    """A dilated causal convolution."""
    d: int = Field(128, gt=0)
    """Features of each vector between the layers, and of the output."""
    window: int = Field(2, ge=2)
    """Positions that a window reads, with gaps between them."""
    n_layers: int = Field(6, gt=0)
    """Layers of a block; their gaps are 1, 2, 4, …"""
    n_blocks: int = Field(1, gt=0)
    """Blocks, each beginning again with gap 1."""
    dropout: Probability = 0.0
    """Probability of dropping a gated unit."""


class TextConvolutionConfig(Config):
    """Convolution and the largest value of each filter over time: one vector for a whole text."""

    kind: Literal["text_convolution"] = "text_convolution"
    """Convolution and max over time."""
    windows: _Windows = (3, 4, 5)
    """Sizes of the windows, in positions; a window may be longer than the text."""
    filters: int = Field(100, gt=0)
    """Filters for each size of window."""
    padding: Literal["wide", "same"] = "wide"
    """wide counts every window that touches the text; same centers one window on each position."""
    activation: ActivationName = "relu"
    """Activation of the features."""
    norm: _NormName = "none"
    """Normalization before the activation."""
    scale: float | None = Field(None, gt=0)
    """Filters are drawn evenly between -scale and scale, with biases of 0; if not set, by the size of the window."""
    k: int = Field(1, gt=0)
    """Keep the k largest values of each filter, in the order of the text."""


class HighwayConfig(Config):
    """Highway layers: each position by itself, through gates that choose between a new value and the old."""

    kind: Literal["highway"] = "highway"
    """A stack of highway layers."""
    n_layers: int = Field(2, gt=0)
    """Layers; all have the size of the input."""
    activation: ActivationName = "relu"
    """Activation of the new value."""
    carry: Literal["coupled", "own"] = "coupled"
    """coupled carries what is not transformed, carry = 1 - transform; own has a gate of its own."""
    bias: float = Field(-2.0, lt=0)
    """First bias of the transform gate; negative, so that a new network carries its input."""


class TransformerConfig(Config):
    """A Transformer encoder: self-attention and a feed-forward layer, n_layers times."""

    kind: Literal["transformer"] = "transformer"
    """A Transformer encoder."""
    d: int = Field(128, gt=0)
    """Features of each vector between the layers."""
    n_heads: int = Field(4, gt=0)
    """Heads of the attention."""
    n_kv_heads: int | None = Field(None, gt=0)
    """Heads of keys and values, shared by neighboring heads; if not set, as many as n_heads."""
    n_layers: int = Field(2, gt=0)
    """Layers."""
    d_ff: int = Field(512, gt=0)
    """Units of the feed-forward layers."""
    norm: Literal["pre", "post"] = "pre"
    """Normalize before each part, which trains without warm-up, or after it, as in the first paper."""
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    """How the positions are told apart."""
    max_length: int = Field(512, gt=0)
    """Longest sequence that learned positions allow."""
    causal: bool = False
    """Look at no position of the future."""
    activation: ActivationName = "relu"
    """Activation of the feed-forward layers."""
    dropout: Probability = 0.1
    """Probability of dropping an attention weight, a feed-forward unit, or a unit of what a part adds."""
    init: Literal["xavier", "depth_scaled", "small"] = "xavier"
    """First values of the weights; depth_scaled makes those of layer l smaller by the square root of l; small draws all
    from a normal of deviation 0.02, and what a part adds smaller by the square root of the number of parts (GPT-2)."""

    @model_validator(mode="after")
    def _fits(self) -> TransformerConfig:
        if self.d % self.n_heads:
            lower = self.d - self.d % self.n_heads
            near = f"{lower} or {lower + self.n_heads}" if lower else f"{self.n_heads}"
            raise ValueError(
                f"d = {self.d} cannot be shared by n_heads = {self.n_heads}: "
                f"choose a d that n_heads divides, such as {near}"
            )
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_kv_heads = {self.n_kv_heads} must divide n_heads = {self.n_heads}, so that each is shared by as "
                f"many: choose one of {', '.join(str(n) for n in range(1, self.n_heads + 1) if self.n_heads % n == 0)}"
            )
        if self.positions == "rotary" and self.d // self.n_heads % 2:
            raise ValueError(
                f"positions = 'rotary' turns pairs of features, but d = {self.d} over n_heads = "
                f"{self.n_heads} leaves {self.d // self.n_heads} for each head, an odd number: "
                f"choose d = {self.d + self.n_heads}"
            )
        return self


class PoolingConfig(Config):
    """How the vectors of all positions become one."""

    kind: PoolingName = "max"
    """last and first_last take positions; ends takes the last of the forward and the first of the backward
    direction of a bidirectional encoder; max, min and mean go over time; attention weighs the positions;
    k_max keeps the k largest values of each feature in the order of the text."""
    k: int = Field(1, gt=0)
    """Values that k_max keeps of each feature."""
    d_attention: int = Field(100, gt=0)
    """Units of the attention."""


EncoderConfig = Annotated[
    RecurrentConfig
    | SelfAttentiveRecurrentConfig
    | ConvolutionConfig
    | DilatedConfig
    | HighwayConfig
    | TransformerConfig,
    Field(discriminator="kind"),
]
