"""Hard attention: one key, and the documented gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.attention.hard import SampledHardAttention, StraightThroughAttention
from catena.attention.weighting import AttentionWeighting

MASK = torch.tensor([[True, True, True, True], [True, True, True, False]])


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = torch.randn(2, 3, 2, 4, dtype=torch.float64, requires_grad=True)
    return scores, MASK, torch.zeros(2, 2, 1), torch.zeros(2, 2, dtype=torch.int64)


@pytest.mark.parametrize(
    "focus", [StraightThroughAttention(), SampledHardAttention().eval()], ids=["straight-through", "sampled"]
)
def test_hard_attention_selects_the_best_real_key(focus: AttentionWeighting) -> None:
    scores, mask, query, places = inputs()
    with torch.no_grad():
        scores[1, :, :, 3] = 9.0  # padding is the best of all
    weights, log_prob = focus(scores, mask, query, places)
    assert log_prob is None
    for b in range(2):
        for h in range(3):
            for t in range(2):
                best = max(range(4 - b), key=lambda j: float(scores.detach()[b, h, t, j]))
                assert weights[b, h, t].tolist() == [float(j == best) for j in range(4)]


@pytest.mark.parametrize(
    "focus", [StraightThroughAttention(), SampledHardAttention().eval(), SampledHardAttention().train()]
)
def test_hard_attention_without_real_keys_has_zero_weights(focus: AttentionWeighting) -> None:
    scores, mask, query, places = inputs()
    weights, log_prob = focus(scores, mask & torch.tensor([[True], [False]]), query, places)
    assert weights.sum(dim=-1).tolist() == [[[1.0, 1.0]] * 3, [[0.0, 0.0]] * 3]
    if log_prob is not None:
        assert (log_prob[0] < 0).all()
        assert log_prob[1].tolist() == [0.0, 0.0], "nothing was sampled"
    answer = (weights * torch.arange(4)).sum() + (0.0 if log_prob is None else log_prob.sum())
    if answer.requires_grad:
        grad = torch.autograd.grad(answer, scores)[0]
        assert grad[0].any()
        assert not grad[1].any()


def test_straight_through_gradient_equals_the_softmax_gradient() -> None:
    scores, mask, query, places = inputs()
    weights, _ = StraightThroughAttention()(scores, mask, query, places)
    found = torch.autograd.grad((weights**2 * torch.arange(1, 5)).sum(), scores)[0]
    of_weights = 2 * weights.detach() * torch.arange(1, 5)  # at the one-hot weights
    for b in range(2):
        for h in range(3):
            for t in range(2):
                p = torch.softmax(scores.detach()[b, h, t, : 4 - b], 0)
                for i in range(4):
                    wanted = sum(
                        float(of_weights[b, h, t, j] * p[j] * (float(i == j) - p[i])) for j in range(4 - b) if i < 4 - b
                    )
                    assert found[b, h, t, i].item() == pytest.approx(wanted, abs=1e-12)


def test_sampled_hard_attention_samples_keys_by_probability() -> None:
    focus = SampledHardAttention().train()
    scores = torch.tensor([0.0, 1.0, -1.0, 5.0], dtype=torch.float64).expand(1, 1, 20_000, 4)
    mask = torch.tensor([[True, True, True, False]])
    weights, log_prob = focus(scores, mask, torch.zeros(1, 20_000, 1), torch.zeros(1, 20_000, dtype=torch.int64))
    assert log_prob is not None
    p = torch.softmax(torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64), 0)
    assert (weights.sum(-1) == 1).all()
    assert torch.allclose(weights[0, 0].mean(0), torch.cat((p, p.new_zeros(1))), atol=0.015)
    assert torch.allclose(log_prob[0], (weights[0, 0, :, :3] @ p).log())


def test_sampled_hard_attention_heads_are_independent_and_log_probs_add_up() -> None:
    scores, mask, query, places = inputs()
    torch.manual_seed(2)
    weights, log_prob = SampledHardAttention().train()(scores, mask, query, places)
    assert log_prob is not None
    wanted = torch.zeros(2, 2, dtype=torch.float64)
    for b in range(2):
        p = torch.softmax(scores[b, :, :, : 4 - b], -1)
        wanted[b] = (weights[b, :, :, : 4 - b] * p).sum(-1).log().sum(0)
    assert torch.allclose(log_prob, wanted)
    assert not weights.requires_grad
