from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from catena.outputs.noise import DistinctSampler, ReplacementSampler, Sampler, WithoutReplacement, noise_weights
from catena.outputs.sampled import SampledSoftmax
from tests.laws.output_laws import CLOSE, D, N, OutputLaws, V, counts_for, gradients, scramble
from tests.oracle.outputs import sampled_loss, scores


class TestSampledSoftmax(OutputLaws):
    divergence = 0.02

    def make(self, v: int, forbidden: Sequence[int] = ()) -> SampledSoftmax:
        noise = noise_weights("log_uniform", counts_for(v), forbidden=forbidden)
        return SampledSoftmax(D, v, WithoutReplacement(noise, 4), forbidden=forbidden)


class TestSampledSoftmaxWithReplacement(OutputLaws):
    divergence = 0.05

    def make(self, v: int, forbidden: Sequence[int] = ()) -> SampledSoftmax:
        noise = noise_weights("unigram", counts_for(v), 1.0, forbidden)
        return SampledSoftmax(D, v, ReplacementSampler(noise, 8), remove_hits=False, bias=False, forbidden=forbidden)


class TestSampledSoftmaxOfDistinctDraws(OutputLaws):
    divergence = 0.05

    def make(self, v: int, forbidden: Sequence[int] = ()) -> SampledSoftmax:
        noise = noise_weights("unigram", counts_for(v), 1.0, forbidden)
        return SampledSoftmax(D, v, DistinctSampler(noise, 8), forbidden=forbidden)


class Fixed(Sampler):
    """A sampler with a fixed sample."""

    def __init__(self, ids: Tensor, like: Sampler) -> None:
        super().__init__()
        self.k, self.ids = len(ids), ids
        self.register_buffer("log_expected", like.log_expected)

    def draw(self) -> Tensor:
        return self.ids


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("noise", ["uniform", "unigram", "log_uniform"])
def test_sampled_softmax_with_all_words_equals_softmax(noise: str, hidden: Tensor) -> None:
    layer = SampledSoftmax(D, V, WithoutReplacement(noise_weights(noise, counts_for(V)), V))
    scramble(layer.double())
    targets = torch.randint(V, (N,))
    loss, full = layer.loss(hidden, targets), -layer.log_prob(hidden, targets).mean()
    torch.testing.assert_close(loss, full, **CLOSE)
    for ours, wanted in zip(gradients(loss, layer, hidden), gradients(full, layer, hidden), strict=True):
        torch.testing.assert_close(ours, wanted, **CLOSE)


@pytest.mark.parametrize("remove_hits", [False, True])
@pytest.mark.parametrize("kind", [ReplacementSampler, WithoutReplacement])
def test_sampled_softmax_loss_equals_the_formula(
    remove_hits: bool, kind: type[ReplacementSampler] | type[WithoutReplacement], hidden: Tensor
) -> None:
    sampler = kind(noise_weights("unigram", counts_for(V)), 4)
    ids, targets = torch.tensor([2, 5, 9, 3]), torch.tensor([2, 2, 5, 0, 1, 9, 10])
    layer = scramble(SampledSoftmax(D, V, Fixed(ids, sampler), remove_hits).double())
    assert layer.scores.bias is not None
    every = scores(hidden.tolist(), layer.scores.weight.tolist(), layer.scores.bias.tolist())
    wanted = sampled_loss(every, targets.tolist(), ids.tolist(), sampler.log_expected.tolist(), remove_hits)
    assert layer.loss(hidden, targets).item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("k", [2, 5])
def test_sampled_softmax_gradient_at_the_optimum_is_zero_or_small(k: int) -> None:
    """All samples are enumerated. Removing hits although words may occur twice has the largest bias."""
    v = 4
    weights = np.array([5.0, 2.0, 2.0, 1.0])
    q = torch.from_numpy(weights / weights.sum())
    hidden = torch.randn(1, D, dtype=torch.float64)
    bias = {}
    for name, like, remove_hits in (
        ("kept", ReplacementSampler(weights, k), False),
        ("removed", ReplacementSampler(weights, k), True),
        ("distinct", DistinctSampler(weights, k), True),
    ):
        torch.manual_seed(4)
        layer = scramble(SampledSoftmax(D, v, Fixed(torch.zeros(k, dtype=torch.long), like), remove_hits).double())
        truth = layer.log_probs(hidden).exp()[0].detach()
        total = torch.zeros((), dtype=torch.float64)
        for drawn in itertools.product(range(v), repeat=k):
            layer.sampler.ids = torch.tensor(drawn).unique() if name == "distinct" else torch.tensor(drawn)
            chance = q[list(drawn)].prod()
            for target in range(v):
                total = total + truth[target] * chance * layer.loss(hidden, torch.tensor([target]))
        found = torch.autograd.grad(total, list(layer.parameters()))
        bias[name] = max(g.abs().max().item() for g in found)
    assert bias["kept"] < 1e-6
    assert bias["distinct"] < 0.02
    assert bias["removed"] > 3 * bias["distinct"]


def test_sampled_softmax_normalizer_is_unbiased() -> None:
    """The mean over samples of the sum of exp(s) / Q is the normalizer: corrections and samples match."""
    torch.manual_seed(0)
    every = torch.randn(V, dtype=torch.float64)
    for sampler in (
        ReplacementSampler(noise_weights("unigram", counts_for(V)), 4),
        WithoutReplacement(noise_weights("log_uniform", counts_for(V)), 4),
    ):
        weight = (every - sampler.log_expected).exp()
        draws = torch.stack([weight[sampler.draw()].sum() for _ in range(4000)])
        error = (draws.mean() - every.exp().sum()) / (draws.std() / math.sqrt(len(draws)))
        assert abs(error) < 4.5


def test_sampled_softmax_removes_hits_only_from_their_rows(hidden: Tensor) -> None:
    sampler = WithoutReplacement(np.ones(V), 2)
    layer = scramble(SampledSoftmax(D, V, Fixed(torch.tensor([3, 3]), sampler)).double())
    assert layer.loss(hidden, torch.full((N,), 3)).item() == 0.0
    assert layer.loss(hidden, torch.full((N,), 4)).item() > 0.0


def test_sampled_weights_may_be_tied() -> None:
    tied = nn.Parameter(torch.randn(V, D))
    assert SampledSoftmax(D, V, ReplacementSampler(np.ones(V), 2), tied=tied).scores.weight is tied
