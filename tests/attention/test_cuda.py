"""Attention on a GPU, where half precision has separate kernels. Skipped without a GPU."""

from __future__ import annotations

import pytest
import torch

from catena.attention.multihead import MultiHeadAttention

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def gradients(device: str, autocast: bool, causal: bool, t: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    attention = MultiHeadAttention(256, 4).to(device)
    x = torch.randn(24, t, 256).to(device).requires_grad_()
    lengths = torch.randint(1, t + 1, (24,)).to(device)
    mask = (torch.arange(t, device=device) < lengths[:, None])[:, None]
    weight = torch.randn(24, t, 256).to(device) * mask.transpose(1, 2)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
        y = attention.causal(x) if causal else attention(x, x, mask)
    (y * weight).sum().backward()
    found = (x.grad, *(p.grad for p in attention.parameters()))
    return tuple(g.detach().double().cpu().flatten() for g in found if g is not None)


@pytest.mark.parametrize("t", [17, 33, 64, 100])
@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_gradients_are_close_to_float32(causal: bool, t: int) -> None:
    right, half = gradients("cpu", False, causal, t), gradients("cuda", True, causal, t)
    assert len(right) > 0
    for a, b in zip(right, half, strict=True):
        # bfloat16 has eight bits, so a sum of products has a relative error of a few thousandths.
        assert torch.cosine_similarity(a, b, dim=0) > 0.995
