from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from catena.errors import ConfigError, ShapeError
from catena.outputs.adaptive import AdaptiveSoftmax
from catena.outputs.build import OUTPUTS, build_output
from catena.outputs.classes import ClassSoftmax
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
from catena.outputs.noise import DistinctSampler, ReplacementSampler
from catena.outputs.partitioned import PartitionedSoftmax
from catena.outputs.sampled import SampledSoftmax
from catena.outputs.softmax import Softmax

D = 5
COUNTS = [0, 30, 7, 7, 1, 100, 2]


def test_build_output_softmax_uses_the_config() -> None:
    tied = nn.Parameter(torch.randn(4, 3))
    layer = build_output(SoftmaxConfig(bias=False, temperature=2.0), 3, [5, 1, 0, 2], tied=tied, forbidden=[2])
    assert isinstance(layer, Softmax)
    assert (layer.d_in, layer.v, layer.temperature) == (3, 4, 2.0)
    assert layer.scores.weight is tied
    assert layer.scores.bias is None
    assert layer.log_probs(torch.randn(1, 3)).isinf().tolist() == [[False, False, True, False]]


def test_build_output_empty_counts_raise() -> None:
    with pytest.raises(ConfigError, match="counts must have the frequency of each id, got an empty sequence"):
        build_output(SoftmaxConfig(), 3, [])


KINDS: list[tuple[OutputConfig, type]] = [
    (SoftmaxConfig(), Softmax),
    (AdaptiveSoftmaxConfig(), AdaptiveSoftmax),
    (AdaptiveSoftmaxConfig(cutoffs=(2, 4), shrink=2.0, bias=False), AdaptiveSoftmax),
    (HierarchicalConfig(), TreeSoftmax),
    (HierarchicalConfig(tree="balanced", bias=False), TreeSoftmax),
    (HierarchicalConfig(tree="clustered"), TreeSoftmax),
    (HierarchicalConfig(tree="classes"), ClassSoftmax),
    (HierarchicalConfig(tree="classes", n_classes=2), ClassSoftmax),
    (NCEConfig(k=5), NCE),
    (NCEConfig(k=5, noise="uniform", shared=False, normalizer="learned", log_z=1.0), NCE),
    (NegativeSamplingConfig(k=5, noise="log_uniform"), NegativeSampling),
    (SampledSoftmaxConfig(k=4), SampledSoftmax),
    (SampledSoftmaxConfig(k=4, noise="unigram", power=0.75, replacement=True, remove_hits=False), SampledSoftmax),
    (PartitionedSoftmaxConfig(size=4), PartitionedSoftmax),
]


@pytest.mark.parametrize(("settings", "kind"), KINDS, ids=lambda x: getattr(x, "kind", ""))
def test_output_layers_are_interchangeable(settings: OutputConfig, kind: type) -> None:
    """The same code trains and queries all of them."""
    layer = build_output(settings, D, COUNTS, vectors=torch.randn(len(COUNTS), 4), forbidden=[0])
    assert isinstance(layer, kind)
    hidden, targets = torch.randn(8, D, requires_grad=True), torch.randint(1, len(COUNTS), (8,))
    layer.loss(hidden, targets).backward()
    assert hidden.grad is not None
    assert layer.log_prob(hidden, targets).isfinite().all()
    assert (layer.log_probs(hidden)[:, 0] == -math.inf).all()
    assert (layer.sample(hidden, torch.Generator().manual_seed(0)) > 0).all()


def test_every_output_config_has_a_layer() -> None:
    assert set(OUTPUTS) == {settings.kind for settings, _ in KINDS}


def test_build_output_passes_the_config_to_the_layer() -> None:
    nce = build_output(NCEConfig(k=7, noise="unigram", power=0.75, normalizer="learned", log_z=1.0), D, COUNTS)
    assert isinstance(nce, NCE)
    weights = [max(c, 1) ** 0.75 for c in COUNTS]
    wanted = [math.log(7 * w / sum(weights)) for w in weights]
    assert nce.sampler.log_expected.tolist() == pytest.approx(wanted, abs=1e-5)
    assert isinstance(nce.log_z, nn.Parameter)
    assert nce.scores.bias is not None
    frequencies = [max(c, 1) / sum(max(c, 1) for c in COUNTS) for c in COUNTS]
    assert nce.scores.bias.tolist() == pytest.approx([math.log(f) + 1.0 for f in frequencies], abs=1e-5)
    sampled = build_output(SampledSoftmaxConfig(k=3, replacement=True, remove_hits=False), D, COUNTS)
    assert isinstance(sampled, SampledSoftmax)
    assert isinstance(sampled.sampler, ReplacementSampler)
    assert not sampled.remove_hits
    distinct = build_output(SampledSoftmaxConfig(k=3, replacement=True), D, COUNTS)
    assert isinstance(distinct, SampledSoftmax)
    assert isinstance(distinct.sampler, DistinctSampler)
    adaptive = build_output(AdaptiveSoftmaxConfig(cutoffs=(3,)), D, COUNTS)
    assert isinstance(adaptive, AdaptiveSoftmax)
    assert adaptive.cutoffs == (3,)
    huffman = build_output(HierarchicalConfig(), D, COUNTS)
    balanced = build_output(HierarchicalConfig(tree="balanced"), D, COUNTS)
    assert isinstance(huffman, TreeSoftmax)
    assert isinstance(balanced, TreeSoftmax)
    assert huffman.expected_depth(COUNTS) < balanced.expected_depth(COUNTS)


def test_build_output_uses_given_classes() -> None:
    classes = [0, 0, 1, 1, 2, 2, 0]
    layer = build_output(HierarchicalConfig(tree="classes"), D, COUNTS, classes=classes)
    assert isinstance(layer, ClassSoftmax)
    assert layer.class_of.tolist() == classes
    with pytest.raises(ShapeError, match="classes must have one class for each of 7 words, got 2"):
        build_output(HierarchicalConfig(tree="classes"), D, COUNTS, classes=[0, 1])


def test_build_output_biases_start_at_the_frequencies() -> None:
    floor = torch.tensor([max(c, 1) for c in COUNTS]).float()
    for settings, _ in KINDS:
        if settings.bias:
            layer = build_output(settings, D, COUNTS, vectors=torch.randn(len(COUNTS), 4))
            torch.testing.assert_close(layer.log_probs(torch.zeros(1, D)).exp()[0], floor / floor.sum())


@pytest.mark.parametrize("settings", [s for s, _ in KINDS if s.kind != "hierarchical"], ids=lambda s: s.kind)
def test_build_output_ties_weights_of_words(settings: OutputConfig) -> None:
    tied = nn.Parameter(torch.randn(len(COUNTS), D))
    layer = build_output(settings, D, COUNTS, tied=tied)
    assert any(parameter is tied for parameter in layer.parameters())
    layer.loss(torch.randn(3, D), torch.tensor([1, 2, 6])).backward()
    assert tied.grad is not None


def test_build_output_invalid_trees_raise() -> None:
    with pytest.raises(ConfigError, match="tree must be 'classes' for tied weights, got 'huffman'"):
        build_output(HierarchicalConfig(), D, COUNTS, tied=nn.Parameter(torch.randn(len(COUNTS), D)))
    with pytest.raises(ConfigError, match="vectors must be given for tree = 'clustered', got None"):
        build_output(HierarchicalConfig(tree="clustered"), D, COUNTS)
    with pytest.raises(ShapeError, match="vectors must have a row for each of 7 words, got 3"):
        build_output(HierarchicalConfig(tree="clustered"), D, COUNTS, vectors=torch.zeros(3, 2))
