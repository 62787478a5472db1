"""Configs of retrieval models. Imports no torch.

Tested in tests/retrieval/test_dual.py and tests/retrieval/test_terms.py.
"""

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
    """Common options of TF-IDF and BM25."""

    against: Literal["response", "context", "both"] = "both"
    """Texts compared with a new context: the responses, the contexts they were given to, or both. Given candidates,
    which have no context, are compared directly."""


class TfidfConfig(TermConfig):
    """Cosine similarity of word counts weighted by inverse document frequency."""

    kind: Literal["tfidf"] = "tfidf"
    """The model."""
    sublinear: bool = False
    """Use 1 + log n instead of n for a word that occurs n times."""


class BM25Config(TermConfig):
    """Okapi BM25: common words, weighted by rarity, with saturation of repeated words and length normalization."""

    kind: Literal["bm25"] = "bm25"
    """The model."""
    k1: float = Field(1.2, ge=0)
    """Saturation of repeated words (k1); 0 ignores repetitions."""
    b: float = Field(0.75, ge=0, le=1)
    """Length normalization (b); 0 ignores the length of a text."""


class NoEncoderConfig(Config):
    """The word vectors themselves, without order."""

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
    """Pooling of the vectors of a text into one vector."""

    kind: PoolingName | Literal["idf"] = "idf"
    """idf: their mean, weighted by idf; the weights are trained from there. The others are the poolings of classify."""
    k: int = Field(1, gt=0)
    """With k_max: number of values kept of each feature."""
    d_attention: int = Field(100, gt=0)
    """With attention: number of hidden units."""


class DualEncoderConfig(Config):
    """A dual encoder: context and response become one vector each, and the match of the two is their score."""

    kind: Literal["dual"] = "dual"
    """The model."""
    embedding: EmbeddingConfig = EmbeddingConfig(d=100)
    """The token vectors. With a file of pretrained vectors, all its words are known, in training texts or not."""
    encoder: _TowerEncoderConfig = NoEncoderConfig()
    """The encoder over the token vectors."""
    pooling: DualPoolingConfig = DualPoolingConfig()
    """Pooling into one vector."""
    shared: bool = True
    """Use one encoder for contexts and responses; otherwise each has its own (token vectors are always the same)."""
    match: Literal["bilinear", "dot", "cosine"] = "bilinear"
    """bilinear: c' M r with a learned matrix M; dot: c' r; cosine: c' r of unit vectors, over the temperature."""
    projection: int | None = Field(None, gt=0)
    """Project both vectors, each by its own matrix, to this many features before a dot or cosine match."""
    temperature: float = Field(0.1, gt=0)
    """With cosine: initial temperature by which scores are divided; it is trained."""
    loss: Literal["binary", "softmax"] = "softmax"
    """binary: classify each pair as correct or not, with sampled negatives (or those of a labeled file); softmax: the
    correct response against all others of its batch."""
    negatives: int = Field(1, gt=0)
    """With the binary loss: number of sampled negatives for each correct response, if the file has no negatives."""
    hard_negatives: bool = False
    """With softmax: add the negatives that a file gives for a context to the other responses of the batch."""
    dropout_hidden: Probability = 0.2
    """Dropout of the vector of a text in training."""

    @model_validator(mode="after")
    def _fits(self) -> DualEncoderConfig:
        if self.match == "bilinear" and self.projection is not None:
            raise ValueError(
                f"projection must be unset with match = 'bilinear', got {self.projection}. Remove projection, or use "
                f"match = 'dot' or 'cosine'."
            )
        if self.pooling.kind == "ends" and not _both_ways(self.encoder):
            raise ValueError(
                f"encoder.kind must be bidirectional with pooling.kind = 'ends', got "
                f"{self.encoder.kind!r}. Use another pooling, or a bidirectional recurrent encoder."
            )
        return self


def _both_ways(encoder: Config) -> bool:
    recurrent = getattr(encoder, "recurrent", encoder)
    return isinstance(recurrent, RecurrentConfig) and recurrent.bidirectional
