"""Keys and values that are masked for all queries change neither contexts nor gradients, for any values."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from catena.attention.base import attend
from catena.attention.cross import build_cross
from catena.attention.hard import StraightThroughAttention
from catena.attention.local import LocalMonotonic, LocalPredictive
from catena.attention.multihead import MultiHeadAttention
from catena.attention.scores import build_score
from catena.attention.weighting import AttentionWeighting, SoftAttention

D = 4
MASK = torch.tensor([[True, True, False, True], [True, False, False, False]])
FOCI: dict[str, Callable[[], AttentionWeighting]] = {
    "soft": SoftAttention,
    "straight through": StraightThroughAttention,
    "monotonic": lambda: LocalMonotonic(1),
    "predictive": lambda: LocalPredictive(D, 2),
}


def inputs(wrong: float) -> tuple[Tensor, Tensor, Tensor]:
    query, keys, values = (torch.randn(2, n, D, dtype=torch.float64) for n in (3, 4, 4))
    keys, values = (torch.where(MASK[..., None], x, wrong) for x in (keys, values))
    return query.requires_grad_(), keys.requires_grad_(), values.requires_grad_()


def context_and_gradients(function: Callable[..., Tensor], wrong: float) -> list[Tensor]:
    torch.manual_seed(0)
    given = inputs(wrong)
    context = function(*given)
    gradients = torch.autograd.grad(context.square().sum(), given, allow_unused=True)
    return [context, *(x for x in gradients if x is not None)]


def check(function: Callable[..., Tensor]) -> None:
    expected = context_and_gradients(function, 0.5)
    for wrong in (math.nan, math.inf, -math.inf):
        for found, right in zip(context_and_gradients(function, wrong), expected, strict=True):
            assert torch.equal(found, right)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["scaled", "additive", "bilinear"])
def test_attend_ignores_masked_values(name: str, wide: bool) -> None:
    score = build_score(name, D, D, 3).double()
    mask = MASK[:, None].expand(2, 3, 4) if wide else MASK[:, None]
    check(lambda q, k, v: attend(q, k, v, mask, score).context)
    check(lambda q, k, v: attend(q, k, v, mask, score).weights)


def test_multi_head_attention_ignores_masked_values() -> None:
    attention = MultiHeadAttention(D, 2).double()
    check(lambda q, k, v: attention(q, k, MASK[:, None]))
    check(lambda q, k, v: attention.with_weights(q, k, MASK[:, None]).context)


def test_multi_head_attention_weight_gradients_are_finite() -> None:
    attention = MultiHeadAttention(D, 2).double()
    query, keys, _ = inputs(math.nan)
    attention(query, keys, MASK[:, None]).sum().backward()
    assert all(p.grad.isfinite().all() for p in attention.parameters() if p.grad is not None)


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("focus", FOCI)
def test_cross_attention_ignores_masked_values(focus: str, n_heads: int) -> None:
    attention = build_cross("scaled", D, D, n_heads, focus=FOCI[focus]()).double()
    check(lambda q, k, v: attention(q, attention.prepare(k, MASK)).context)
