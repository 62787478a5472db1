"""Settings of output layers: typed values, checked before any data is touched. Imports no torch.

``OutputConfig`` is any of them, told apart by ``kind``; the layers are interchangeable.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from catena.config import Config

_NoiseName = Literal["uniform", "unigram", "log_uniform"]


class SoftmaxConfig(Config):
    """The full softmax: exact, and fast enough up to some ten thousand words."""

    kind: Literal["softmax"] = "softmax"
    """The full softmax."""
    bias: bool = True
    """A bias for each word."""
    temperature: float = Field(1.0, gt=0)
    """What scores are divided by; above 1 the distribution is flatter."""
    smoothing: float = Field(0.0, ge=0, lt=1)
    """Share of each target that training spreads evenly over all words (label smoothing); 0.1 is usual in
    translation."""


class AdaptiveSoftmaxConfig(Config):
    """Adaptive softmax: frequent words in a short list, the others in clusters with smaller vectors (exact)."""

    kind: Literal["adaptive"] = "adaptive"
    """Adaptive softmax."""
    cutoffs: tuple[Annotated[int, Field(gt=0)], ...] | None = None
    """Ranks by frequency at which a new cluster begins, such as [2000, 10000]; 'none' finds those of least cost
    from the counts."""
    shrink: float = Field(4.0, ge=1)
    """By how much the vectors of each cluster are smaller than those of the one before; unused with tied weights."""
    bias: bool = True
    """A bias for each word and cluster."""

    @model_validator(mode="after")
    def _fits(self) -> AdaptiveSoftmaxConfig:
        if self.cutoffs is not None and list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise ValueError(
                f"cutoffs = {list(self.cutoffs)} must grow: write {sorted(set(self.cutoffs))}, "
                "or 'none' to have them found"
            )
        return self


class HierarchicalConfig(Config):
    """Hierarchical softmax: a path of decisions to each word (exact, and different from the full softmax)."""

    kind: Literal["hierarchical"] = "hierarchical"
    """Hierarchical softmax."""
    tree: Literal["huffman", "balanced", "clustered", "classes"] = "huffman"
    """huffman makes paths to frequent words short; balanced makes all alike; clustered splits word vectors in two
    again and again; classes has two levels, a class and a word of it."""
    n_classes: int | None = Field(None, gt=0)
    """Classes, made by frequency where none are given; 'none' takes the square root of the vocabulary."""
    bias: bool = True
    """A bias for each decision."""

    @model_validator(mode="after")
    def _fits(self) -> HierarchicalConfig:
        if self.n_classes is not None and self.tree != "classes":
            raise ValueError(
                f"n_classes = {self.n_classes} is for tree = 'classes', but tree is {self.tree!r}: "
                "leave it out, or choose tree = 'classes'"
            )
        return self


class NCEConfig(Config):
    """Noise-contrastive estimation: tell words of the data from words of a noise distribution."""

    kind: Literal["nce"] = "nce"
    """Noise-contrastive estimation."""
    k: int = Field(100, gt=0)
    """Noise words for each word of the data."""
    noise: _NoiseName = "unigram"
    """Where noise words come from: all alike, by frequency, or by the rank of the frequency."""
    power: float = Field(1.0, ge=0)
    """Power of the frequencies of unigram noise; 0.75 is usual in word2vec."""
    shared: bool = True
    """One set of noise words for the whole batch, which is many times faster than one for each row."""
    normalizer: Literal["fixed", "learned"] = "fixed"
    """Whether the log of the normalizer is kept at log_z, so that scores learn to be log-probabilities, or learned."""
    log_z: float = 0.0
    """The log of the normalizer, or its first value."""
    bias: bool = True
    """A bias for each word."""


class NegativeSamplingConfig(Config):
    """Negative sampling: as noise-contrastive estimation, without the probabilities of the noise."""

    kind: Literal["negative"] = "negative"
    """Negative sampling."""
    k: int = Field(100, gt=0)
    """Noise words for each word of the data."""
    noise: _NoiseName = "unigram"
    """Where noise words come from: all alike, by frequency, or by the rank of the frequency."""
    power: float = Field(0.75, ge=0)
    """Power of the frequencies of unigram noise."""
    shared: bool = True
    """One set of noise words for the whole batch, which is many times faster than one for each row."""
    bias: bool = True
    """A bias for each word."""


class SampledSoftmaxConfig(Config):
    """Sampled softmax: a softmax over the target and a sample of other words, corrected for how they were drawn."""

    kind: Literal["sampled"] = "sampled"
    """Sampled softmax."""
    k: int = Field(1000, gt=0)
    """Words drawn for each batch."""
    noise: _NoiseName = "log_uniform"
    """Where they come from: all alike, by frequency, or by the rank of the frequency."""
    power: float = Field(1.0, ge=0)
    """Power of the frequencies of unigram noise."""
    replacement: bool = False
    """Draw each word by itself, so that one may come twice; without it there are k different words, which is better."""
    remove_hits: bool = True
    """Leave a drawn word out of the rows whose target it is; of words that come twice, one is left out too."""
    bias: bool = True
    """A bias for each word."""


class PartitionedSoftmaxConfig(Config):
    """Partitioned vocabulary: a softmax over the words that a part of the training text has, and some others."""

    kind: Literal["partitioned"] = "partitioned"
    """Partitioned vocabulary."""
    size: int = Field(2000, gt=0)
    """Words that are candidates at one time."""
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
