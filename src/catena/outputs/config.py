"""Configs of output layers: typed values, checked before any data is read. Does not import torch.

``OutputConfig`` is the union of them, selected by ``kind``; the layers are interchangeable.

Tested in tests/outputs/test_build.py and tests/outputs/test_settings.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

_NoiseName = Literal["uniform", "unigram", "log_uniform"]


class SoftmaxConfig(Config):
    """The full softmax: exact, and fast enough for vocabularies up to tens of thousands of words."""

    kind: Literal["softmax"] = "softmax"
    """The full softmax."""
    bias: bool = True
    """A bias for each word."""
    temperature: float = Field(1.0, gt=0)
    """Divisor of the scores; above 1 the distribution is flatter."""
    smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing: the fraction of each target spread evenly over all words in training; 0.1 is usual in
    translation."""


class AdaptiveSoftmaxConfig(Config):
    """Adaptive softmax: frequent words in a short list, the others in clusters with smaller vectors (exact)."""

    kind: Literal["adaptive"] = "adaptive"
    """Adaptive softmax."""
    cutoffs: tuple[Annotated[int, Field(gt=0)], ...] | None = None
    """Frequency ranks at which a new cluster begins, such as [2000, 10000]; 'none' finds the cheapest ones from the
    counts."""
    shrink: float = Field(4.0, ge=1)
    """Factor between the vector sizes of a cluster and the next; unused with tied weights."""
    bias: bool = True
    """A bias for each word and cluster."""

    @model_validator(mode="after")
    def _fits(self) -> AdaptiveSoftmaxConfig:
        if self.cutoffs is not None and list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise ValueError(
                f"cutoffs must be increasing, got {list(self.cutoffs)}. Use {sorted(set(self.cutoffs))}, or 'none' to "
                "choose them automatically."
            )
        return self


class HierarchicalConfig(Config):
    """Hierarchical softmax: a path of decisions to each word (exact, and different from the full softmax)."""

    kind: Literal["hierarchical"] = "hierarchical"
    """Hierarchical softmax."""
    tree: Literal["huffman", "balanced", "clustered", "classes"] = "huffman"
    """huffman makes paths to frequent words short; balanced makes all paths equally long; clustered splits word vectors
    in two recursively; classes has two levels, a class and a word of it."""
    n_classes: int | None = Field(None, gt=0)
    """Number of classes, by frequency if none are given; 'none' takes the square root of the vocabulary size."""
    bias: bool = True
    """A bias for each decision."""

    @model_validator(mode="after")
    def _fits(self) -> HierarchicalConfig:
        if self.n_classes is not None and self.tree != "classes":
            raise ValueError(
                f"tree must be 'classes' if n_classes is set, got {self.tree!r}. Set tree = 'classes', or remove "
                "n_classes."
            )
        return self


class NCEConfig(Config):
    """Noise-contrastive estimation: classify words of the data against words of a noise distribution."""

    kind: Literal["nce"] = "nce"
    """Noise-contrastive estimation."""
    k: int = Field(100, gt=0)
    """Number of noise words for each word of the data."""
    noise: _NoiseName = "unigram"
    """Distribution of noise words: uniform, by frequency, or by the rank of the frequency."""
    power: float = Field(1.0, ge=0)
    """Exponent of the frequencies of unigram noise; 0.75 is usual in word2vec."""
    shared: bool = True
    """Use one set of noise words for the whole batch, which is many times faster than one for each row."""
    normalizer: Literal["fixed", "learned"] = "fixed"
    """Whether the log of the normalizer is fixed at log_z, so that scores become log-probabilities, or learned."""
    log_z: float = 0.0
    """The log of the normalizer, or its initial value."""
    bias: bool = True
    """A bias for each word."""


class NegativeSamplingConfig(Config):
    """Negative sampling: as noise-contrastive estimation, without the probabilities of the noise."""

    kind: Literal["negative"] = "negative"
    """Negative sampling."""
    k: int = Field(100, gt=0)
    """Number of noise words for each word of the data."""
    noise: _NoiseName = "unigram"
    """Distribution of noise words: uniform, by frequency, or by the rank of the frequency."""
    power: float = Field(0.75, ge=0)
    """Exponent of the frequencies of unigram noise."""
    shared: bool = True
    """Use one set of noise words for the whole batch, which is many times faster than one for each row."""
    bias: bool = True
    """A bias for each word."""


class SampledSoftmaxConfig(Config):
    """Sampled softmax: a softmax over the target and a sample of other words, corrected for the sampling."""

    kind: Literal["sampled"] = "sampled"
    """Sampled softmax."""
    k: int = Field(1000, gt=0)
    """Number of words sampled for each batch."""
    noise: _NoiseName = "log_uniform"
    """Distribution of sampled words: uniform, by frequency, or by the rank of the frequency."""
    power: float = Field(1.0, ge=0)
    """Exponent of the frequencies of unigram noise."""
    replacement: bool = False
    """Sample words with replacement, so that one may occur twice; without it there are k different words, which is
    better."""
    remove_hits: bool = True
    """Remove a sampled word from the rows whose target it is; of words that occur twice, one is removed, too."""
    bias: bool = True
    """A bias for each word."""


class PartitionedSoftmaxConfig(Config):
    """Partitioned vocabulary: a softmax over the words that a part of the training text has, and some others."""

    kind: Literal["partitioned"] = "partitioned"
    """Partitioned vocabulary."""
    size: int = Field(2000, gt=0)
    """Number of candidate words at one time."""
    bias: bool = True
    """A bias for each word."""


OutputConfig = Annotated[
    SoftmaxConfig
    | AdaptiveSoftmaxConfig
    | HierarchicalConfig
    | NCEConfig
    | NegativeSamplingConfig
    | SampledSoftmaxConfig
    | PartitionedSoftmaxConfig,
    Field(discriminator="kind"),
]
