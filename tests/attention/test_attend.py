"""Attention: weights and sums compared to plain loops; masked positions have no effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from catena.attention.base import attend
from catena.attention.scores import SCORES, build_score
from tests.oracle import attention as oracle


def test_attend_equals_plain_loops() -> None:
    query, keys, values = (torch.randn(2, n, d, dtype=torch.float64) for n, d in ((3, 4), (5, 4), (5, 6)))
    mask = torch.rand(2, 3, 5) < 0.6
    mask[0, 1] = False
    found = attend(query, keys, values, mask)
    for b in range(2):
        arrays = (x[b].numpy() for x in (query, keys, values, mask))
        context, weights = oracle.attend(*arrays, score=lambda q, k: float(q @ k) / math.sqrt(4))
        np.testing.assert_allclose(found.context[b].numpy(), context, atol=1e-12)
        np.testing.assert_allclose(found.weights[b].numpy(), weights, atol=1e-12)


def test_attend_equals_torch_fused_attention() -> None:
    query, keys, values = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    mask = torch.tensor([3, 5])[:, None, None] > torch.arange(5)
    theirs = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    torch.testing.assert_close(attend(query, keys, values, mask).context, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", list(SCORES))
def test_attend_masked_positions_have_zero_weight_and_finite_gradients(name: str) -> None:
    score = build_score(name, 4, 4).double()
    query, keys = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = torch.tensor([[[True, False, True]], [[False, False, False]]])
    found = attend(query, keys, keys, mask, score)
    assert (found.weights[0, :, 1] == 0).all()
    torch.testing.assert_close(found.weights.sum(-1)[0], torch.ones(3, dtype=torch.float64))
    assert (found.context[1] == 0).all()
    found.context.square().sum().backward()
    for x in (query, keys):
        assert x.grad is not None
        assert x.grad.isfinite().all()
    assert keys.grad is not None
    assert (keys.grad[0, 1] == 0).all()
    assert (keys.grad[1] == 0).all()
