"""Output layers from their configs. Register a new kind of layer in ``OUTPUTS`` under its ``kind``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from catena.errors import ConfigError, ShapeError
from catena.outputs.adaptive import AdaptiveSoftmax, by_frequency
from catena.outputs.base import OutputLayer
from catena.outputs.classes import ClassSoftmax, frequency_classes
from catena.outputs.config import (
    AdaptiveSoftmaxConfig,
    HierarchicalConfig,
    NCEConfig,
    NegativeSamplingConfig,
    OutputConfig,
    PartitionedSoftmaxConfig,
    SampledSoftmaxConfig,
    SoftmaxConfig,
)
from catena.outputs.contrastive import NCE, NegativeSampling
from catena.outputs.hierarchical import TreeSoftmax
from catena.outputs.noise import DistinctSampler, ReplacementSampler, Sampler, WithoutReplacement, noise_weights
from catena.outputs.partitioned import PartitionedSoftmax
from catena.outputs.sampled import SampledSoftmax
from catena.outputs.softmax import Softmax
from catena.outputs.word_trees import balanced_tree, clustered_tree, huffman_tree
from catena.registry import Registry


@dataclass(frozen=True, eq=False)
class VocabularyStats:
    """The statistics of a vocabulary that output layers are built from."""

    counts: Sequence[int]
    tied: nn.Parameter | None = None
    vectors: Tensor | None = None
    classes: Sequence[int] | None = None
    forbidden: Sequence[int] = ()

    @property
    def v(self) -> int:
        return len(self.counts)


OUTPUTS: Registry[Callable[[Any, int, VocabularyStats], OutputLayer]] = Registry("output layer")


def build_output(
    settings: OutputConfig,
    d_in: int,
    counts: Sequence[int],
    tied: nn.Parameter | None = None,
    vectors: Float[Tensor, "v d"] | None = None,
    classes: Sequence[int] | None = None,
    forbidden: Sequence[int] = (),
) -> OutputLayer:
    """The output layer of a config; its biases start at the frequencies of the words.

    Args:
        settings: any of ``OutputConfig``.
        d_in: the size of the input vectors.
        counts: the count of each id in the training text.
        tied: the rows of an embedding to use as weights, of shape ``(v, d_in)``.
        vectors: word vectors for ``tree = "clustered"``.
        classes: the class of each id, for ``tree = "classes"``.
        forbidden: ids of probability 0, such as padding.
    """
    if not len(counts):
        raise ConfigError(
            "counts must have the frequency of each id, got an empty sequence. Build the vocabulary first."
        )
    words = VocabularyStats([int(count) for count in counts], tied, vectors, classes, tuple(int(i) for i in forbidden))
    layer = OUTPUTS[settings.kind](settings, d_in, words)
    layer.start_at(noise_weights("unigram", words.counts, 1.0, words.forbidden))
    return layer


@OUTPUTS.register("softmax")
def build_softmax(settings: SoftmaxConfig, d_in: int, words: VocabularyStats) -> Softmax:
    """The full softmax."""
    return Softmax(d_in, words.v, settings.bias, settings.temperature, words.tied, words.forbidden, settings.smoothing)


@OUTPUTS.register("adaptive")
def build_adaptive(settings: AdaptiveSoftmaxConfig, d_in: int, words: VocabularyStats) -> AdaptiveSoftmax:
    """Adaptive softmax."""
    return AdaptiveSoftmax(
        d_in, words.counts, settings.cutoffs, settings.shrink, settings.bias, words.tied, words.forbidden
    )


@OUTPUTS.register("hierarchical")
def build_hierarchical(settings: HierarchicalConfig, d_in: int, words: VocabularyStats) -> OutputLayer:
    """Hierarchical softmax: a binary tree, or classes."""
    if settings.tree == "classes":
        classes = words.classes
        if classes is None:
            classes = frequency_classes(words.counts, settings.n_classes).tolist()
        elif len(classes) != words.v:
            raise ShapeError(
                f"classes must have one class for each of {words.v} words, got {len(classes)}. Add the rest."
            )
        return ClassSoftmax(d_in, classes, settings.bias, words.tied, words.forbidden)
    if words.tied is not None:
        raise ConfigError(
            f"tree must be 'classes' for tied weights, got {settings.tree!r}, which has weights for decisions, not for "
            "words. Untie the weights, or choose another tree or output layer."
        )
    leaves = by_frequency(words.counts, words.forbidden)
    match settings.tree:
        case "huffman":
            children = huffman_tree([words.counts[word] for word in leaves])
        case "balanced":
            children = balanced_tree(len(leaves))
        case "clustered":
            children = clustered_tree(_vectors(words)[leaves])
    return TreeSoftmax(d_in, words.v, children, leaves, settings.bias)


def _vectors(words: VocabularyStats) -> np.ndarray:
    if words.vectors is None:
        raise ConfigError(
            "vectors must be given for tree = 'clustered', got None. Pass word vectors (zeros, if weights are loaded "
            "afterwards), or choose tree = 'huffman'."
        )
    if len(words.vectors) != words.v:
        raise ShapeError(
            f"vectors must have a row for each of {words.v} words, got {len(words.vectors)}. Add the rest."
        )
    return words.vectors.detach().cpu().numpy()


@OUTPUTS.register("nce")
def build_nce(settings: NCEConfig, d_in: int, words: VocabularyStats) -> NCE:
    """Noise-contrastive estimation."""
    return NCE(
        d_in,
        noise_weights(settings.noise, words.counts, settings.power, words.forbidden),
        settings.k,
        settings.shared,
        settings.log_z,
        settings.normalizer == "learned",
        settings.bias,
        words.tied,
        words.forbidden,
    )


@OUTPUTS.register("negative")
def build_negative(settings: NegativeSamplingConfig, d_in: int, words: VocabularyStats) -> NegativeSampling:
    """Negative sampling."""
    noise = noise_weights(settings.noise, words.counts, settings.power, words.forbidden)
    return NegativeSampling(d_in, noise, settings.k, settings.shared, settings.bias, words.tied, words.forbidden)


@OUTPUTS.register("sampled")
def build_sampled(settings: SampledSoftmaxConfig, d_in: int, words: VocabularyStats) -> SampledSoftmax:
    """Sampled softmax."""
    noise = noise_weights(settings.noise, words.counts, settings.power, words.forbidden)
    sampler: Sampler
    if not settings.replacement:
        sampler = WithoutReplacement(noise, settings.k)
    elif settings.remove_hits:  # a hit counts once, so every word must count once
        sampler = DistinctSampler(noise, settings.k)
    else:
        sampler = ReplacementSampler(noise, settings.k)
    return SampledSoftmax(d_in, words.v, sampler, settings.remove_hits, settings.bias, words.tied, words.forbidden)


@OUTPUTS.register("partitioned")
def build_partitioned(settings: PartitionedSoftmaxConfig, d_in: int, words: VocabularyStats) -> PartitionedSoftmax:
    """Softmax over a partitioned vocabulary."""
    return PartitionedSoftmax(d_in, words.v, settings.size, settings.bias, words.tied, words.forbidden)
