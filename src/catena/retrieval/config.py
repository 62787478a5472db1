"""Settings of what finds texts: typed values, told apart by ``kind``. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config
from catena.embeddings.config import EmbeddingConfig
from catena.encoders.config import (
    ConvolutionConfig,
    DilatedConfig,
    HighwayConfig,
    PoolingName,
    Probability,
    RecurrentConfig,
    SelfAttentiveRecurrentConfig,
    TransformerConfig,
)


class TermConfig(Config):
    """What the matchers of shared words have in common."""

    against: Literal["response", "context", "both"] = "response"
    """What a new context is compared with when the index is asked: the responses; the contexts that they were given
    to, as suits questions and answers; or both. Given candidates, which have no context, are compared themselves."""


class TfidfConfig(TermConfig):
    """The cosine of word counts that are weighed by how rare a word is."""

    kind: Literal["tfidf"] = "tfidf"
    """The model."""
    sublinear: bool = False
    """A word that occurs n times counts 1 + log n times in place of n."""


class BM25Config(TermConfig):
    """Okapi BM25: rare words that are shared, each time they are repeated counting less, in short texts more."""

    kind: Literal["bm25"] = "bm25"
    """The model."""
    k1: float = Field(1.2, ge=0)
    """How much more a word counts that is repeated; 0: not at all."""
    b: float = Field(0.75, ge=0, le=1)
    """How much the length of a text counts; 0: not at all."""


class NoEncoderConfig(Config):
    """The vectors of the words as they are, without order."""

    kind: Literal["none"] = "none"
    """No encoder."""


_TowerEncoderConfig = Annotated[
    NoEncoderConfig
    | RecurrentConfig
    | SelfAttentiveRecurrentConfig
    | ConvolutionConfig
    | DilatedConfig
    | HighwayConfig
    | TransformerConfig,
    Field(discriminator="kind"),
]


class DualPoolingConfig(Config):
    """How the vectors of a text become one."""

    kind: PoolingName | Literal["idf"] = "idf"
    """idf: their mean, each weighed by how rare its word is; the weights are learned from there. The others as the
    pooling of a classifier."""
    k: int = Field(1, gt=0)
    """Values that k_max keeps of each feature."""
    d_attention: int = Field(100, gt=0)
    """Units of the attention."""


class DualEncoderConfig(Config):
    """A dual encoder: context and response become a vector each, and the match of the two is their score."""

    kind: Literal["dual"] = "dual"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=100)
    """The vectors of the tokens. With a file of vectors, all its words are known, in training texts or not."""
    encoder: _TowerEncoderConfig = NoEncoderConfig()
    """What reads the vectors."""
    pooling: DualPoolingConfig = DualPoolingConfig()
    """How they become one."""
    shared: bool = True
    """Contexts and responses have one encoder; otherwise each its own (the token vectors are shared in any case)."""
    match: Literal["bilinear", "dot", "cosine"] = "bilinear"
    """bilinear: c' M r with a learned matrix M; dot: c' r; cosine: c' r of unit vectors, over the temperature."""
    projection: int | None = Field(None, gt=0)
    """Map both vectors, each by a matrix of its own, to so many features before a dot or cosine match."""
    temperature: float = Field(0.1, gt=0)
    """Of a cosine match: what scores are divided by; learned from there."""
    loss: Literal["binary", "softmax"] = "softmax"
    """binary: yes or no for each pair, right ones and drawn ones (or those that a labeled file gives); softmax: the
    right response against all others of its batch."""
    negatives: int = Field(1, gt=0)
    """With the binary loss: drawn responses for each right one, where the file gives no wrong ones."""
    hard_negatives: bool = False
    """With softmax: the wrong responses that a file gives for a context stand beside the others of the batch."""
    dropout_hidden: Probability = 0.2
    """Probability of dropping a feature of a text's vector in training."""

    @model_validator(mode="after")
    def _fits(self) -> DualEncoderConfig:
        if self.match == "bilinear" and self.projection is not None:
            raise ValueError(
                f"projection = {self.projection} is for match = 'dot' or 'cosine'; match = 'bilinear' has its matrix: "
                f"leave it out"
            )
        if self.pooling.kind == "ends" and not _both_ways(self.encoder):
            raise ValueError(
                f"pooling.kind = 'ends' needs an encoder that reads both ways, and encoder.kind is "
                f"{self.encoder.kind!r}: choose another pooling, or a bidirectional recurrent encoder"
            )
        return self


def _both_ways(encoder: Config) -> bool:
    recurrent = getattr(encoder, "recurrent", encoder)
    return isinstance(recurrent, RecurrentConfig) and recurrent.bidirectional
