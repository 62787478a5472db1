"""Sampled alignments: the gradient of one sample is right on average, by enumeration."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from catena.attention.hard import SampledHardAttention
from catena.seq2seq.base import Source
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.seq2seq.recurrent_latent import Reinforce
from tests.laws.seq2seq_laws import padded
from tests.seq2seq.test_recurrent import maker

SOURCE, TARGETS = Source(*padded([[4, 5]])), padded([[6, 4, 3]])


def drawing(model: RecurrentEncoderDecoder, places: tuple[int, ...]) -> None:
    """Make the attention sample these positions, for any probabilities."""
    assert model.looking is not None
    queue = list(places)

    def draw(p: Tensor) -> Tensor:
        return torch.tensor([queue.pop(0) for _ in range(p.shape[2])]).view(1, 1, -1)

    cast(Any, model.looking.focus).draw = draw


@pytest.mark.parametrize("options", [{"order": "bahdanau"}, {"input_feeding": True}, {"input_feeding": False}], ids=str)
def test_reinforce_mean_gradient_is_the_gradient_of_the_mean(options: dict[str, Any]) -> None:
    model = maker({"attention_kind": "hard_sampled", "dropout": 0.0, **options})()
    assert isinstance(model, RecurrentEncoderDecoder)
    model.train()
    reinforce = model.reinforce
    assert reinforce is not None
    parameters = list(model.parameters())
    targets, lengths = TARGETS
    exact: Tensor | float = 0.0
    estimate = [torch.zeros_like(p) for p in parameters]
    total = 0.0
    for places in itertools.product(range(2), repeat=3):
        drawing(model, places)
        decoded = model.decode(model.encode(SOURCE), model.shifted(targets))
        assert decoded.looked is not None
        assert decoded.looked.log_prob is not None
        chance = decoded.looked.log_prob.sum().exp()
        log_probs = model.output.log_prob(decoded.vectors[0], targets[0])
        exact = exact - chance * log_probs.sum() / 3
        drawing(model, places)
        reinforce.baseline.fill_(-0.7)
        loss = model.loss(SOURCE, targets, lengths)
        assert loss.item() == pytest.approx(-log_probs.mean().item(), abs=1e-10)
        for mean, gradient in zip(estimate, torch.autograd.grad(loss, parameters), strict=True):
            mean += chance.detach() * gradient
        total += chance.item()
    assert total == pytest.approx(1.0)
    assert isinstance(exact, Tensor)
    for mean, wanted in zip(estimate, torch.autograd.grad(exact, parameters), strict=True):
        assert torch.allclose(mean, wanted, rtol=0, atol=1e-10)


def test_reinforce_baseline_is_the_mean_of_earlier_batches() -> None:
    reinforce = Reinforce(remembers=False, momentum=0.75)
    real = torch.tensor([[True, True, False]])
    drawn = torch.zeros(1, 3)
    reinforce(torch.tensor([[-2.0, -6.0, -50.0]]), drawn, real)
    assert reinforce.baseline.item() == pytest.approx(-1.0)
    reinforce(torch.tensor([[-3.0, -3.0, -50.0]]), drawn, real)
    assert reinforce.baseline.item() == pytest.approx(-1.5)
    assert "baseline" in reinforce.state_dict()


def test_hard_sampled_does_not_sample_in_evaluation() -> None:
    model = maker({"attention_kind": "hard_sampled"})()
    assert isinstance(model, RecurrentEncoderDecoder)
    assert model.looking is not None
    assert isinstance(model.looking.focus, SampledHardAttention)
    first, second = (model.token_log_probs(SOURCE, *TARGETS) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize("remembers", [True, False])
def test_reinforce_equals_its_formula(remembers: bool, compared: bool) -> None:
    """Value and gradients by loops, with a baseline that moves with the batches; padding has no effect."""
    reinforce, baseline = Reinforce(remembers=remembers, momentum=0.75).double(), 0.0
    lengths, n = [3, 1], 4
    real = torch.arange(3) < torch.tensor(lengths)[:, None]
    for seed in range(3):
        torch.manual_seed(seed)
        log_probs, drawn = (torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
        expected = torch.randn(2, 3, dtype=torch.float64) if compared else torch.zeros(2, 3, dtype=torch.float64)
        value = reinforce(log_probs, drawn, real, expected if compared else None)
        rewards = (log_probs - expected).tolist()
        assert value.item() == pytest.approx(-log_probs[real].mean().item())
        mean = sum(sum(row[:length]) for row, length in zip(rewards, lengths, strict=True)) / n
        value.backward()
        assert torch.allclose(log_probs.grad, -real.double() / n)
        for i, length in enumerate(lengths):
            for t in range(3):
                reached = range(t, length) if remembers else range(t, min(t + 1, length))
                gain = sum(rewards[i][u] - baseline for u in reached)
                assert drawn.grad[i, t].item() == pytest.approx(-gain / n)
        baseline = 0.75 * baseline + 0.25 * mean
        assert reinforce.baseline.item() == pytest.approx(baseline)
