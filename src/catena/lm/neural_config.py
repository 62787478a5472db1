"""Configs of neural language models, one for each kind of encoder. Does not import torch.

Tested in tests/lm/test_neural.py and tests/lm/test_neural_masked.py.
"""

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
"""Modes of the embedding with frozen vectors."""


def _value(section: Any, key: str) -> Any:
    """A value of a section that is a dict or a config; None if it is not set."""
    return section.get(key) if isinstance(section, dict) else getattr(section, key, None)


class NeuralLMConfig(Config):
    """Options of all neural language models."""

    embedding: EmbeddingConfig = EmbeddingConfig(d=256, scale=0.1)
    """The token embedding."""
    output: OutputConfig = SoftmaxConfig()
    """The output layer over the vocabulary."""
    tied: bool = True
    """Use the embedding's weights in the output layer, with a projection if the sizes differ. If not set, false for
    frozen embeddings and for trees of decisions, which have no weights for each word."""
    dropout_input: Probability = 0.2
    """Probability of dropping a feature of a token's vector in training."""
    dropout_output: Probability = 0.2
    """Probability of dropping a unit of the encoder's vectors before the output layer."""
    dropout_words: Probability = 0.0
    """Probability of dropping a word of the vocabulary, with all its tokens in a batch."""
    locked: bool = True
    """Drop the same units at every step of a sequence in dropout_input and dropout_output (variational dropout)."""

    @model_validator(mode="before")
    @classmethod
    def _untie(cls, data: Any) -> Any:
        """Set tied = false by default if weights cannot be tied; an explicit tied = true raises an error below."""
        if not isinstance(data, dict) or "tied" in data:
            return data
        mode, tree = _value(data.get("embedding"), "mode"), _value(data.get("output"), "tree")
        decisions = _value(data.get("output"), "kind") == "hierarchical" and tree != "classes"
        return {**data, "tied": False} if decisions or mode in _FROZEN_EMBEDDING_MODES else data

    @model_validator(mode="after")
    def _can_be_tied(self) -> NeuralLMConfig:
        if self.tied and self.output.kind == "hierarchical" and self.output.tree != "classes":
            raise ValueError(
                f"output.tree must be 'classes' if tied = true, got {self.output.tree!r}, which has no weights for "
                "each word. Remove tied, or set output.tree = 'classes'."
            )
        if self.tied and self.embedding.mode in _FROZEN_EMBEDDING_MODES:
            raise ValueError(
                f"embedding.mode must be trainable if tied = true, got {self.embedding.mode!r}. Set tied = false, or "
                f"embedding.mode = 'tuned'."
            )
        return self


def _recurrent(**options: object) -> RecurrentConfig:
    """A recurrent encoder with the defaults of language models."""
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
    """An LSTM: standard, with peepholes, or with coupled gates (encoder.cell)."""

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
    """Number of hidden units."""
    context: int = Field(5, gt=0)
    """Number of previous tokens that predict the next one."""
    direct: bool = True
    """Connect the token vectors directly to the output, in addition to the hidden layer."""
    dropout: Probability = 0.2
    """Probability of dropping a hidden unit."""


class FeedForwardLMConfig(NeuralLMConfig):
    """The feed-forward model of Bengio et al. (2003)."""

    kind: Literal["feed-forward"] = "feed-forward"
    """The model."""
    encoder: FeedForwardConfig = FeedForwardConfig()
    """The feed-forward encoder."""


class ConvolutionLMConfig(NeuralLMConfig):
    """Causal convolution: dilated, or standard with padding = causal."""

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
    """Probability of dropping a feature of a token's vector in training; the encoder has dropout, too."""
    dropout_output: Probability = 0.0
    """Probability of dropping a unit of the encoder's vectors before the output layer."""


AnyNeuralLMConfig = (
    RNNLMConfig | LSTMLMConfig | GRULMConfig | FeedForwardLMConfig | ConvolutionLMConfig | TransformerLMConfig
)
NEURAL_KINDS = ("rnn", "lstm", "gru", "feed-forward", "convolution", "transformer")
