"""Local attention: windows, checked key by key."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from catena.attention.local import LocalMonotonic, LocalPredictive

LENGTHS = [6, 1, 3]
MASK = torch.arange(6) < torch.tensor(LENGTHS)[:, None]


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = torch.randn(3, 2, 5, 6, dtype=torch.float64)
    places = torch.arange(5) + torch.tensor([0, 3, 1])[:, None]
    query = 3 * torch.randn(3, 5, 4, dtype=torch.float64)
    query[:, 0] = 0.0  # half of the source's length: the window ends exactly at keys
    return scores, MASK, query, places


def softmax_of(scores: Tensor, near: list[int]) -> dict[int, float]:
    total = sum(math.exp(scores[j]) for j in near)
    return {j: math.exp(scores[j]) / total for j in near}


@pytest.mark.parametrize("window", [1, 2])
def test_local_monotonic_window_moves_with_the_step_and_stays_at_the_end(window: int) -> None:
    scores, mask, query, places = inputs()
    weights, _ = LocalMonotonic(window)(scores, mask, query, places)
    for b, length in enumerate(LENGTHS):
        for t in range(5):
            center = min(int(places[b, t]), length - 1)
            near = [j for j in range(length) if abs(j - center) <= window]
            for h in range(2):
                wanted = softmax_of(scores[b, h, t], near)
                assert weights[b, h, t].tolist() == pytest.approx([wanted.get(j, 0.0) for j in range(6)], abs=1e-12)


@pytest.mark.parametrize("window", [1, 2])
def test_local_predictive_window_prefers_its_center(window: int) -> None:
    scores, mask, query, places = inputs()
    focus = LocalPredictive(4, window).double()
    weights, _ = focus(scores, mask, query, places)
    for b, length in enumerate(LENGTHS):
        for t in range(5):
            hidden = [math.tanh(float(row @ query[b, t])) for row in focus.hidden.weight.detach()]
            up = sum(float(v) * h for v, h in zip(focus.position.weight.detach()[0], hidden, strict=True))
            center = length / (1 + math.exp(-up))
            near = [j for j in range(length) if abs(j - center) <= window]
            assert near
            for h in range(2):
                soft = softmax_of(scores[b, h, t], near)
                bell = {j: math.exp(-((j - center) ** 2) / (2 * (window / 2) ** 2)) for j in near}
                wanted = [soft[j] * bell[j] if j in soft else 0.0 for j in range(6)]
                assert weights[b, h, t].tolist() == pytest.approx(wanted, abs=1e-12)


def test_local_predictive_position_gets_a_gradient() -> None:
    scores, mask, query, places = inputs()
    focus = LocalPredictive(4, 2).double()
    weights, _ = focus(scores, mask, query, places)
    weights.square().sum().backward()
    assert all(p.grad is not None and (p.grad != 0).any() for p in focus.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_local_predictive_half_precision_reaches_every_position(dtype: torch.dtype) -> None:
    focus = LocalPredictive(1, 2).to(dtype)
    for weight in focus.parameters():
        torch.nn.init.ones_(weight)
    query, places = torch.linspace(-2, 2, 41, dtype=dtype)[None, :, None], torch.arange(41)[None]
    mask = torch.ones(1, 5000, dtype=torch.bool)
    weights, _ = focus(torch.zeros(1, 1, 41, 5000, dtype=dtype), mask, query, places)
    assert weights.dtype == dtype
    for row, share in zip(weights[0, 0], torch.sigmoid(torch.tanh(query[0, :, 0])).double().tolist(), strict=True):
        near = [j for j in range(5000) if abs(j - 5000 * share) <= 2]
        assert row.nonzero()[:, 0].tolist() == near
        bell = [math.exp(-((j - 5000 * share) ** 2) / 2) / len(near) for j in near]
        assert row[near].tolist() == pytest.approx(bell, rel=0.02)
