"""Configs of encoders and poolings: typed values, checked before any data is read. Does not import torch.

``EncoderConfig`` is the union of them, selected by ``kind``.
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
ScoreName = Literal[
    "dot", "scaled", "cosine", "bilinear", "additive", "hadamard", "concat", "concat_product", "trilinear"
]  # fmt: skip
_NormName = Literal["none", "batch", "layer"]
PoolingName = Literal["last", "first_last", "ends", "max", "min", "mean", "attention", "k_max"]
FramePoolingName = Literal["max", "log_sum_exp", "mean", "last", "ends"]
Probability = Annotated[float, Field(ge=0, lt=1)]
_Windows = Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]


class RecurrentConfig(Config):
    """A recurrent network: Elman, leaky, LSTM or GRU cells, stacked, in one direction or both."""

    kind: Literal["recurrent"] = "recurrent"
    """A recurrent encoder."""
    cell: CellName = "lstm"
    """The cell. gru applies the reset gate after the product, as torch's fused GRU; gru_reset_first
    before it."""
    d: int = Field(100, gt=0)
    """Units of each layer in each direction."""
    n_layers: int = Field(1, gt=0)
    """Number of layers."""
    bidirectional: bool = True
    """Read the sequence in both directions and concatenate the states; the output is then twice as wide."""
    activation: ActivationName = "tanh"
    """Activation of the elman and leaky cells; the others use tanh."""
    peephole: Literal["full", "diagonal"] = "diagonal"
    """Peepholes of peephole_lstm: a full matrix, or a diagonal one, where each unit uses only its own memory."""
    leak: float = Field(0.5, gt=0, le=1)
    """Fraction of the new value in a leaky unit; 1 keeps nothing of the old one. The initial value if learned."""
    learn_leak: bool = False
    """Learn the fraction of each leaky unit."""
    connections: Literal["none", "residual", "skip"] = "none"
    """Between layers: residual adds a layer's input to its output if the sizes are equal; skip feeds the
    encoder's input to every layer and concatenates the states of all layers in the output."""
    dropout: Probability = 0.0
    """Probability of dropping a unit between two layers."""
    locked: bool = False
    """Drop the same units at every step of a sequence (variational dropout)."""
    weight_dropout: Probability = 0.0
    """Probability of dropping a recurrent weight, the same for all steps of a sequence."""
    init: InitName = "default"
    """Initialization of the weights. identity and orthogonal refer to the recurrent matrices."""
    forget_bias: float | None = 1.0
    """Initial bias of the forget gate of an LSTM; 'none' keeps the random one."""

    @model_validator(mode="after")
    def _fits(self) -> RecurrentConfig:
        if self.activation != "tanh" and self.cell not in ("elman", "leaky"):
            raise ValueError(
                f"cell must be 'elman' or 'leaky' if activation is set, got {self.cell!r} and activation = "
                f"{self.activation!r}. Remove activation, or change cell."
            )
        if self.learn_leak and self.cell != "leaky":
            raise ValueError(
                f"cell must be 'leaky' if learn_leak = true, got {self.cell!r}. Set cell = 'leaky', or remove "
                "learn_leak."
            )
        if self.learn_leak and self.leak == 1:
            raise ValueError("leak must be below 1 if learn_leak = true, got 1. Use a value such as leak = 0.9.")
        return self


class SelfAttentiveRecurrentConfig(Config):
    """A recurrent network whose states attend to all states."""

    kind: Literal["self_attentive_recurrent"] = "self_attentive_recurrent"
    """A recurrent encoder that attends to its own states."""
    recurrent: RecurrentConfig = RecurrentConfig()
    """The recurrence whose states are attended to."""
    score: ScoreName = "scaled"
    """Attention score of two states."""
    causal: bool = False
    """Do not attend to later states."""

    @model_validator(mode="after")
    def _fits(self) -> SelfAttentiveRecurrentConfig:
        if self.causal and self.recurrent.bidirectional:
            raise ValueError(
                "recurrent.bidirectional must be false if causal = true, got true. Set recurrent.bidirectional = false."
            )
        return self


class ConvolutionConfig(Config):
    """Convolution with windows of several sizes; one vector for each position."""

    kind: Literal["convolution"] = "convolution"
    """A convolutional encoder."""
    windows: _Windows = (3, 4, 5)
    """Window sizes in positions."""
    filters: int = Field(100, gt=0)
    """Number of filters for each window size."""
    n_layers: int = Field(1, gt=0)
    """Number of layers."""
    dilations: _Windows = (1,)
    """Distance of neighboring positions in the windows of each layer; repeated if there are more layers."""
    padding: Literal["same", "causal"] = "same"
    """same centers the window on its position; causal ends it there, so that later positions are not used."""
    activation: ActivationName = "relu"
    """Activation after each convolution."""
    norm: _NormName = "none"
    """Normalization before the activation."""
    residual: bool = False
    """Add a layer's input to its output if the sizes are equal."""
    dropout: Probability = 0.0
    """Probability of dropping a unit between two layers."""


class DilatedConfig(Config):
    """Dilated causal convolution with gates and residual connections (WaveNet)."""

    kind: Literal["dilated"] = "dilated"
    """A dilated causal convolution."""
    d: int = Field(128, gt=0)
    """Size of the vectors between the layers, and of the output."""
    window: int = Field(2, ge=2)
    """Number of positions in a window, with gaps between them."""
    n_layers: int = Field(6, gt=0)
    """Number of layers of a block; their dilations are 1, 2, 4, …"""
    n_blocks: int = Field(1, gt=0)
    """Number of blocks, each starting again with dilation 1."""
    dropout: Probability = 0.0
    """Probability of dropping a gated unit."""


class TextConvolutionConfig(Config):
    """Convolution and max over time: one vector for a whole text."""

    kind: Literal["text_convolution"] = "text_convolution"
    """Convolution and max over time."""
    windows: _Windows = (3, 4, 5)
    """Window sizes in positions; a window may be longer than the text."""
    filters: int = Field(100, gt=0)
    """Number of filters for each window size."""
    padding: Literal["wide", "same"] = "wide"
    """wide uses every window that overlaps the text; same centers one window on each position."""
    activation: ActivationName = "relu"
    """Activation of the features."""
    norm: _NormName = "none"
    """Normalization before the activation."""
    scale: float | None = Field(None, gt=0)
    """Initial filters are uniform from -scale to scale, with biases of 0; if not set, by the size of the window."""
    k: int = Field(1, gt=0)
    """Keep the k largest values of each filter, in the order of the text."""


class HighwayConfig(Config):
    """Highway layers: gates choose between a new value and the old one at each position."""

    kind: Literal["highway"] = "highway"
    """A stack of highway layers."""
    n_layers: int = Field(2, gt=0)
    """Number of layers; all have the size of the input."""
    activation: ActivationName = "relu"
    """Activation of the new value."""
    carry: Literal["coupled", "own"] = "coupled"
    """coupled sets the carry gate to 1 - transform; own has a separate carry gate."""
    bias: float = Field(-2.0, lt=0)
    """Initial bias of the transform gate; negative, so that a new network carries its input."""


class TransformerConfig(Config):
    """A Transformer encoder: self-attention and a feed-forward layer, n_layers times."""

    kind: Literal["transformer"] = "transformer"
    """A Transformer encoder."""
    d: int = Field(128, gt=0)
    """Size of the vectors between the layers."""
    n_heads: int = Field(4, gt=0)
    """Number of attention heads."""
    n_kv_heads: int | None = Field(None, gt=0)
    """Number of key-value heads, each used by neighboring query heads; n_heads if not set."""
    n_layers: int = Field(2, gt=0)
    """Layers."""
    d_ff: int = Field(512, gt=0)
    """Units of the feed-forward layers."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sublayer, which trains without warm-up, or after it, as in the original paper."""
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    """Position embeddings."""
    max_length: int = Field(512, gt=0)
    """Maximum sequence length with learned positions."""
    causal: bool = False
    """Do not attend to later positions."""
    activation: ActivationName = "relu"
    """Activation of the feed-forward layers."""
    dropout: Probability = 0.1
    """Probability of dropping an attention weight, a feed-forward unit, or a unit of a sublayer's output."""
    init: Literal["xavier", "depth_scaled", "small"] = "xavier"
    """Initialization of the weights; depth_scaled divides those of layer l by the square root of l; small uses a normal
    distribution with deviation 0.02, and scales the outputs of sublayers by 1 / sqrt(number of sublayers) (GPT-2)."""

    @model_validator(mode="after")
    def _fits(self) -> TransformerConfig:
        if self.d % self.n_heads:
            lower = self.d - self.d % self.n_heads
            near = f"{lower} or {lower + self.n_heads}" if lower else f"{self.n_heads}"
            raise ValueError(
                f"d must be divisible by n_heads = {self.n_heads}, got {self.d}. Use {near}, or another n_heads."
            )
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_kv_heads must divide n_heads = {self.n_heads}, got {self.n_kv_heads}. Use one of "
                f"{', '.join(str(n) for n in range(1, self.n_heads + 1) if self.n_heads % n == 0)}."
            )
        if self.positions == "rotary" and self.d // self.n_heads % 2:
            raise ValueError(
                f"d / n_heads must be even for positions = 'rotary', got {self.d} / {self.n_heads} = "
                f"{self.d // self.n_heads}. Use d = {self.d + self.n_heads}."
            )
        return self


class CustomEncoderConfig(Config):
    """Your own encoder: a class in a Python module, called with the size of the input vectors and your options."""

    kind: Literal["custom"] = "custom"
    """An encoder of your own."""
    module: str | None = None
    """Its class as module:Class, in an installed module or in the current folder. Its objects map (x, lengths), with x
    of shape b t d_in, to b t d_out, and have an attribute d_out."""
    module_options: tuple[str, ...] = ()
    """Further arguments of the class, written as key=value."""


class SpectrogramConfig(Config):
    """Two-dimensional convolution over time and frequency, and an encoder over time, for log-mel energies of sound."""

    kind: Literal["spectrogram"] = "spectrogram"
    """Convolution over time and frequency."""
    channels: _Windows = (16, 32, 48)
    """Channels of each layer; each halves the number of mel bands."""
    causal: bool = False
    """Do not use later frames in these layers."""
    encoder: Annotated[RecurrentConfig | ConvolutionConfig | DilatedConfig, Field(discriminator="kind")] = (
        ConvolutionConfig(windows=(3,), filters=64, n_layers=4, dilations=(1, 2, 4, 8), norm="batch", residual=True)
    )
    """The encoder that reads their features."""


class PoolingConfig(Config):
    """How the vectors of all positions are reduced to one."""

    kind: PoolingName = "max"
    """last and first_last take positions; ends takes the last of the forward and the first of the backward
    direction of a bidirectional encoder; max, min and mean are over time; attention is a weighted mean;
    k_max keeps the k largest values of each feature in the order of the text."""
    k: int = Field(1, gt=0)
    """Number of values that k_max keeps of each feature."""
    d_attention: int = Field(100, gt=0)
    """Hidden units of the attention."""


SoundEncoderConfig = Annotated[
    SpectrogramConfig | ConvolutionConfig | DilatedConfig | RecurrentConfig, Field(discriminator="kind")
]
"""Encoders of the frames of sounds."""

EncoderConfig = Annotated[
    RecurrentConfig
    | SelfAttentiveRecurrentConfig
    | ConvolutionConfig
    | DilatedConfig
    | HighwayConfig
    | TransformerConfig
    | CustomEncoderConfig,
    Field(discriminator="kind"),
]
