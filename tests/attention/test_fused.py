"""The torch kernels that attention uses, and its results."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from catena.attention import fused
from catena.attention.fused import EXACT_BACKENDS, fused_attention


def test_fused_attention_excludes_only_cudnn() -> None:
    others = {backend for name, backend in SDPBackend.__members__.items() if name not in ("ERROR", "OVERRIDEABLE")}
    assert set(EXACT_BACKENDS) == others - {SDPBackend.CUDNN_ATTENTION}


def test_fused_attention_keeps_the_backends_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu(torch.Tensor):
        device = torch.device("cuda")

    def attention(q: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        flags = torch.backends.cuda
        assert flags.math_sdp_enabled()
        assert not flags.flash_sdp_enabled()
        assert not flags.mem_efficient_sdp_enabled()
        return q

    monkeypatch.setattr(fused.F, "scaled_dot_product_attention", attention)
    q = torch.zeros(1, 1, 2, 3).as_subclass(OnGpu)
    with sdpa_kernel(SDPBackend.MATH):
        assert fused_attention(q, q, q) is q


@pytest.mark.parametrize("with_gradient", [True, False])
def test_fused_attention_selects_backends_only_with_gradients(
    monkeypatch: pytest.MonkeyPatch, with_gradient: bool
) -> None:
    """The selection is of GPU kernels, but can be tested without a GPU."""
    seen: list[tuple[bool, tuple[object, ...], dict[str, object]]] = []

    class OnGpu(torch.Tensor):
        device = torch.device("cuda")

    def attention(*given: object, **more: object) -> torch.Tensor:
        seen.append((torch.backends.cuda.cudnn_sdp_enabled(), given, more))
        return q

    monkeypatch.setattr(fused.F, "scaled_dot_product_attention", attention)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    q, k, v = (torch.zeros(1, 1, 2, 3).as_subclass(OnGpu) for _ in range(3))
    mask = torch.ones(1, 1, 2, 2, dtype=torch.bool)
    with torch.set_grad_enabled(with_gradient):
        fused_attention(q, k, v, mask, 0.25, causal=True)
    ((cudnn, given, more),) = seen
    assert cudnn == (before and not with_gradient)
    assert list(map(id, given)) == list(map(id, (q, k, v)))
    assert more == {"attn_mask": mask, "dropout_p": 0.25, "is_causal": True}
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
