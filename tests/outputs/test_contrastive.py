from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from catena.outputs.contrastive import NCE, NegativeSampling
from catena.outputs.noise import noise_weights
from tests.laws.output_laws import CLOSE, D, N, OutputLaws, V, counts_for, gradients, scramble, seeded
from tests.oracle.outputs import contrastive_loss, scores


class TestNCE(OutputLaws):
    divergence = 0.02

    def make(self, v: int, forbidden: Sequence[int] = ()) -> NCE:
        return NCE(D, noise_weights("unigram", counts_for(v), 1.0, forbidden), k=20, forbidden=forbidden)


class TestNCEWithNoiseOfItsOwnForEachRow(OutputLaws):
    divergence = 0.02

    def make(self, v: int, forbidden: Sequence[int] = ()) -> NCE:
        noise = noise_weights("uniform", counts_for(v), forbidden=forbidden)
        return NCE(D, noise, k=5, shared=False, log_z=0.3, learn_log_z=True, bias=False, forbidden=forbidden)


class TestNegativeSampling(OutputLaws):
    divergence = 0.05

    def make(self, v: int, forbidden: Sequence[int] = ()) -> NegativeSampling:
        noise = noise_weights("unigram", counts_for(v), 0.75, forbidden)
        return NegativeSampling(D, noise, k=20, forbidden=forbidden)


class TestNegativeSamplingWithNoiseOfItsOwnForEachRow(OutputLaws):
    divergence = 0.02

    def make(self, v: int, forbidden: Sequence[int] = ()) -> NegativeSampling:
        noise = noise_weights("unigram", counts_for(v), 0.75, forbidden)
        return NegativeSampling(D, noise, k=5, shared=False, bias=False, forbidden=forbidden)


@pytest.fixture
def hidden() -> Tensor:
    return torch.randn(N, D, dtype=torch.float64, requires_grad=True)


def draws_of(layer: NCE | NegativeSampling, ids: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the layer sample these noise words."""
    monkeypatch.setattr(layer.sampler, "draw", lambda: ids)
    monkeypatch.setattr(layer.sampler, "draw_rows", lambda n: ids.expand(n, -1))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["nce", "negative"])
def test_contrastive_loss_equals_the_formula(
    shared: bool, kind: str, hidden: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = noise_weights("unigram", counts_for(V))
    layer: NCE | NegativeSampling
    if kind == "nce":
        layer = NCE(D, noise, k=4, shared=shared, log_z=0.7)
    else:
        layer = NegativeSampling(D, noise, k=4, shared=shared)
    layer = scramble(layer.double())
    ids, targets = torch.tensor([2, 2, 9, 0]), torch.randint(V, (N,))
    draws_of(layer, ids, monkeypatch)
    assert layer.scores.bias is not None
    every = scores(hidden.tolist(), layer.scores.weight.tolist(), layer.scores.bias.tolist())
    shift = [0.7 + np.log(4 * q) for q in noise / noise.sum()] if kind == "nce" else [0.0] * V
    odds = [[score - shift[w] for w, score in enumerate(row)] for row in every]
    wanted = contrastive_loss(odds, targets.tolist(), [ids.tolist()] * N)
    assert layer.loss(hidden, targets).item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("v", [2, 7, 49])
def test_nce_and_negative_sampling_are_equal_for_uniform_noise_and_k_of_v(v: int, shared: bool, hidden: Tensor) -> None:
    """k q(w) is one, so the log-odds of noise-contrastive estimation are the scores (log 1 = 0 exactly)."""
    noise = noise_weights("uniform", [0] * v)
    nce, negative = NCE(D, noise, k=v, shared=shared).double(), NegativeSampling(D, noise, k=v, shared=shared).double()
    scramble(nce)
    negative.scores.load_state_dict(nce.scores.state_dict())
    targets = torch.randint(v, (N,))
    ours, theirs = seeded(lambda: nce.loss(hidden, targets)), seeded(lambda: negative.loss(hidden, targets))
    assert ours.item() == theirs.item()
    for a, b in zip(gradients(ours, nce, hidden), gradients(theirs, negative, hidden), strict=True):
        assert torch.equal(a, b)
    torch.testing.assert_close(nce.log_probs(hidden), negative.log_probs(hidden), **CLOSE)


@pytest.mark.parametrize(("noise", "k"), [("unigram", 9), ("uniform", 9), ("unigram", V)])
def test_nce_and_negative_sampling_differ_otherwise(noise: str, k: int, hidden: Tensor) -> None:
    weights = noise_weights(noise, counts_for(V))
    nce, negative = NCE(D, weights, k).double(), NegativeSampling(D, weights, k).double()
    negative.scores.load_state_dict(nce.scores.state_dict())
    targets = torch.randint(V, (N,))
    gap = seeded(lambda: nce.loss(hidden, targets)) - seeded(lambda: negative.loss(hidden, targets))
    assert abs(gap.item()) > 1e-6


def expected_loss(layer: NCE, hidden: Tensor, targets: Tensor, q: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The exact mean over all samples: noise words are additive, so each can be sampled k times separately."""
    losses = []
    for word in range(V):
        draws_of(layer, torch.full((layer.sampler.k,), word), monkeypatch)
        losses.append(layer.loss(hidden, targets))
    return torch.stack(losses) @ q


def self_normalized(layer: NCE) -> Tensor:
    """Set the layer's scores to log-probabilities for one vector, which is returned."""
    hidden = torch.randn(1, D, dtype=torch.float64)
    assert layer.scores.bias is not None
    with torch.no_grad():
        layer.scores.bias.sub_(torch.logsumexp(hidden @ layer.scores.weight.T + layer.scores.bias, dim=1))
    return hidden


@pytest.mark.parametrize("noise", ["uniform", "unigram", "log_uniform"])
def test_nce_gradient_converges_to_the_likelihood_gradient(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word's gradient has the factor k q / (k q + p) (Mnih & Teh 2012, eq. 8 to 12), so the
    distance is at most the gradient times the largest p / (k q)."""
    weights = noise_weights(noise, counts_for(V))
    q = torch.from_numpy(weights / weights.sum())
    torch.manual_seed(1)
    truth = torch.softmax(torch.randn(V, dtype=torch.float64), 0)
    errors = []
    for k in (1, 30, 300, 6000):
        torch.manual_seed(2)
        layer = scramble(NCE(D, weights, k).double())
        hidden = self_normalized(layer)
        p = layer.log_probs(hidden).exp()[0]
        assert layer.log_unnormalized(hidden, torch.tensor([3])).item() == pytest.approx(p[3].log().item(), abs=1e-6)
        losses = [expected_loss(layer, hidden, torch.tensor([word]), q, monkeypatch) for word in range(V)]
        assert layer.scores.bias is not None
        nce = torch.autograd.grad(torch.stack(losses) @ truth, layer.scores.bias)[0]
        likelihood = p - truth
        errors.append(((nce - likelihood).norm() / likelihood.norm()).item())
        assert errors[-1] <= (p / (k * q)).max().item() + 1e-6
        torch.testing.assert_close(nce, (k * q / (k * q + p)) * likelihood, rtol=0, atol=1e-6)
    assert errors[0] > 1.2 * errors[1] > 2 * errors[2] > 25 * errors[3], errors  # finally as 1 / k
    assert errors[-1] < 0.01


def test_nce_expected_gradient_at_the_optimum_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = noise_weights("unigram", counts_for(V), 0.75)
    q = torch.from_numpy(weights / weights.sum())
    layer = scramble(NCE(D, weights, k=2).double())
    hidden = self_normalized(layer)
    truth = layer.log_probs(hidden).exp()[0].detach()
    losses = [expected_loss(layer, hidden, torch.tensor([word]), q, monkeypatch) for word in range(V)]
    for gradient in torch.autograd.grad(torch.stack(losses) @ truth, list(layer.parameters())):
        assert gradient.abs().max() < 1e-7


def test_negative_sampling_is_nce_with_scores_shifted_by_the_noise(hidden: Tensor) -> None:
    """Its probabilities are q exp(s), normalized."""
    weights = noise_weights("unigram", counts_for(V), 0.75)
    negative = scramble(NegativeSampling(D, weights, k=6).double())
    nce = NCE(D, weights, k=6).double()
    nce.scores.load_state_dict(negative.scores.state_dict())
    assert nce.scores.bias is not None
    with torch.no_grad():
        nce.scores.bias += nce.sampler.log_expected
    targets = torch.randint(V, (N,))
    torch.testing.assert_close(
        seeded(lambda: nce.loss(hidden, targets)), seeded(lambda: negative.loss(hidden, targets)), **CLOSE
    )
    torch.testing.assert_close(nce.log_probs(hidden), negative.log_probs(hidden), **CLOSE)


def test_nce_new_layer_is_nearly_normalized() -> None:
    weights = noise_weights("unigram", counts_for(V))
    layer = NCE(D, weights, k=5, log_z=1.5)
    layer.start_at(weights)
    hidden = torch.zeros(1, D)
    total = sum(layer.log_unnormalized(hidden, torch.tensor([w])).exp().item() for w in range(V))
    assert total == pytest.approx(1.0, abs=1e-5)
    assert not layer.normalized


def test_nce_normalizer_is_learned_only_if_requested() -> None:
    weights = noise_weights("uniform", [1] * V)
    fixed, learned = NCE(D, weights, 3, log_z=2.0), NCE(D, weights, 3, log_z=2.0, learn_log_z=True)
    assert [name for name, _ in fixed.named_parameters()] == ["scores.weight", "scores.bias"]
    learned.loss(torch.randn(4, D), torch.tensor([1, 2, 3, 4])).backward()
    assert learned.log_z.grad is not None
    assert learned.log_z.item() == fixed.log_z.item() == 2.0


def test_negative_sampling_loads_noise_with_the_weights(hidden: Tensor) -> None:
    """It is part of the probabilities, unlike in other layers, where it is only used in training."""
    saved = NegativeSampling(D, noise_weights("unigram", counts_for(V)), k=3).double()
    other = NegativeSampling(D, noise_weights("uniform", counts_for(V)), k=5).double()
    other.load_state_dict(saved.state_dict())
    assert torch.equal(other.log_probs(hidden), saved.log_probs(hidden))


def test_contrastive_weights_may_be_tied() -> None:
    tied = nn.Parameter(torch.randn(V, D))
    weights = noise_weights("uniform", [1] * V)
    for layer in (NCE(D, weights, 3, tied=tied), NegativeSampling(D, weights, 3, tied=tied)):
        assert layer.scores.weight is tied
