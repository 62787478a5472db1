"""Settings of neural language models, each kind of encoder a kind of model. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.embeddings.config import EmbeddingConfig
from catena.encoders.config import (
    ConvolutionConfig,
    DilatedConfig,
    Probability,
    RecurrentConfig,
    TransformerConfig,
)
from catena.outputs.config import OutputConfig, SoftmaxConfig

_FROZEN_EMBEDDING_MODES = ("static", "multichannel")
"""Modes of the embedding in which the vectors of a file are kept as they are."""


def _value(section: Any, key: str) -> Any:
    """A value of a section that may be written out or made already; None where it is not set."""
    return section.get(key) if isinstance(section, dict) else getattr(section, key, None)


class NeuralLMConfig(Config):
    """What all neural language models share."""

    embedding: EmbeddingConfig = EmbeddingConfig(d=256, scale=0.1)
    """The vectors of the tokens."""
    output: OutputConfig = SoftmaxConfig()
    """How a vector becomes a distribution over the vocabulary."""
    tied: bool = True
    """The output layer has the embedding's own weights; a map is put between where the sizes differ. If not set, false
    for vectors that are kept as they are, and for trees of decisions, which have no weights for each word."""
    dropout_input: Probability = 0.2
    """Probability of dropping a number of a token's vector in training."""
    dropout_output: Probability = 0.2
    """Probability of dropping a unit of the encoder's vectors, before the output layer."""
    dropout_words: Probability = 0.0
    """Probability of dropping a word of the vocabulary, with all its tokens in a batch."""
    locked: bool = True
    """dropout_input and dropout_output drop the same units at every step of a sequence (variational dropout)."""

    @model_validator(mode="before")
    @classmethod
    def _untie(cls, data: Any) -> Any:
        """Tie no weights where that cannot be, unless the config asks for it, which is refused below."""
        if not isinstance(data, dict) or "tied" in data:
            return data
        mode, tree = _value(data.get("embedding"), "mode"), _value(data.get("output"), "tree")
        decisions = _value(data.get("output"), "kind") == "hierarchical" and tree != "classes"
        return {**data, "tied": False} if decisions or mode in _FROZEN_EMBEDDING_MODES else data

    @model_validator(mode="after")
    def _can_be_tied(self) -> NeuralLMConfig:
        if self.tied and self.output.kind == "hierarchical" and self.output.tree != "classes":
            raise ValueError(
                f"output.tree = {self.output.tree!r} has weights for each decision, not for each word, so that tied = "
                "true cannot tie them to the embedding: leave tied out, or choose output.tree = 'classes'"
            )
        if self.tied and self.embedding.mode in _FROZEN_EMBEDDING_MODES:
            raise ValueError(
                f"tied = true trains the embedding with the output layer, and embedding.mode = "
                f"{self.embedding.mode!r} keeps it as it is: set tied = false, or embedding.mode = 'tuned'"
            )
        return self


def _recurrent(**options: object) -> RecurrentConfig:
    """A recurrent encoder as a language model likes it."""
    return RecurrentConfig(
        **{"d": 256, "n_layers": 2, "bidirectional": False, "dropout": 0.2, "locked": True, **options}
    )


class RNNLMConfig(NeuralLMConfig):
    """A simple recurrent network (Elman 1990; Mikolov et al. 2010)."""

    kind: Literal["rnn"] = "rnn"
    """The model."""
    encoder: RecurrentConfig = _recurrent(cell="elman")
    """The recurrent encoder."""


class LSTMLMConfig(NeuralLMConfig):
    """An LSTM: plain, with peepholes, or with coupled gates (encoder.cell)."""

    kind: Literal["lstm"] = "lstm"
    """The model."""
    encoder: RecurrentConfig = _recurrent(cell="lstm")
    """The recurrent encoder."""


class GRULMConfig(NeuralLMConfig):
    """A gated recurrent unit."""

    kind: Literal["gru"] = "gru"
    """The model."""
    encoder: RecurrentConfig = _recurrent(cell="gru")
    """The recurrent encoder."""


class FeedForwardConfig(Config):
    """A hidden layer over the last few vectors."""

    kind: Literal["feed_forward"] = "feed_forward"
    """A feed-forward encoder."""
    d: int = Field(256, gt=0)
    """Hidden units."""
    context: int = Field(5, gt=0)
    """Tokens that are read together to guess the next one."""
    direct: bool = True
    """Connect the tokens' vectors with the output directly, beside the hidden layer."""
    dropout: Probability = 0.2
    """Probability of dropping a hidden unit."""


class FeedForwardLMConfig(NeuralLMConfig):
    """The feed-forward model of Bengio et al. (2003)."""

    kind: Literal["feed-forward"] = "feed-forward"
    """The model."""
    encoder: FeedForwardConfig = FeedForwardConfig()
    """The feed-forward encoder."""


class ConvolutionLMConfig(NeuralLMConfig):
    """Causal convolution: with gaps that double (dilated), or plain with padding = causal."""

    kind: Literal["convolution"] = "convolution"
    """The model."""
    encoder: Annotated[DilatedConfig | ConvolutionConfig, Field(discriminator="kind")] = DilatedConfig(
        d=256, dropout=0.1
    )
    """The convolutional encoder."""


class TransformerLMConfig(NeuralLMConfig):
    """A Transformer decoder."""

    kind: Literal["transformer"] = "transformer"
    """The model."""
    encoder: TransformerConfig = TransformerConfig(
        d=256, n_heads=4, n_layers=4, d_ff=1024, causal=True, positions="rotary", activation="gelu"
    )
    """The Transformer."""
    dropout_input: Probability = 0.0
    """Probability of dropping a number of a token's vector in training; the encoder drops too."""
    dropout_output: Probability = 0.0
    """Probability of dropping a unit of the encoder's vectors, before the output layer."""


AnyNeuralLMConfig = (
    RNNLMConfig | LSTMLMConfig | GRULMConfig | FeedForwardLMConfig | ConvolutionLMConfig | TransformerLMConfig
)
NEURAL_KINDS = ("rnn", "lstm", "gru", "feed-forward", "convolution", "transformer")
