"""Output layers on a GPU, where half precision has separate matrix products. Skipped without a GPU."""

from __future__ import annotations

import pytest
import torch

from catena.outputs.build import build_output
from catena.outputs.config import OutputConfig, SoftmaxConfig
from tests.outputs.test_build import COUNTS, KINDS, D

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def run(settings: OutputConfig, device: str, dtype: torch.dtype, autocast: bool) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    layer = build_output(settings, D, COUNTS, vectors=torch.randn(len(COUNTS), 4), forbidden=[0])
    layer = layer.to(device=device, dtype=dtype)
    hidden = torch.randn(40, D).to(device=device, dtype=dtype).requires_grad_()
    targets = torch.randint(1, len(COUNTS), (40,)).to(device)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
        log_prob, log_probs = layer.log_prob(hidden, targets), layer.log_probs(hidden)
        loss = -log_prob.mean() if not layer.likelihood else layer.loss(hidden, targets)
    loss.backward()
    gradients = [p.grad for p in (hidden, *layer.parameters()) if p.grad is not None]
    assert layer.loss(hidden, targets).isfinite()
    assert (layer.sample(hidden, torch.Generator().manual_seed(0)) > 0).all()
    return tuple(x.detach().double().cpu() for x in (loss, log_prob, log_probs, *gradients))


@pytest.mark.parametrize(("settings", "_"), KINDS, ids=lambda x: getattr(x, "kind", ""))
@pytest.mark.parametrize(
    ("dtype", "autocast", "tolerance"),
    [
        (torch.float64, False, 1e-10),
        (torch.float32, False, 1e-4),
        (torch.bfloat16, False, 0.06),
        (torch.float32, True, 0.06),
    ],
)
def test_output_layer_on_gpu_equals_cpu(
    settings: OutputConfig, _: type, dtype: torch.dtype, autocast: bool, tolerance: float
) -> None:
    wanted = run(settings, "cpu", torch.float64 if dtype != torch.float32 else dtype, False)
    found = run(settings, "cuda", dtype, autocast)
    for ours, reference in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, reference, rtol=tolerance, atol=tolerance)


def test_half_precision_weight_gradient_is_summed_in_float32() -> None:
    n = 4096
    layer = build_output(SoftmaxConfig(), 8, [1] * 16).cuda().bfloat16()
    layer.loss(torch.ones(n, 8, device="cuda").bfloat16(), torch.zeros(n, dtype=torch.long, device="cuda")).backward()
    half = [p.grad.double() for p in layer.parameters() if p.grad is not None]
    layer.double().zero_grad()
    layer.loss(torch.ones(n, 8, device="cuda").double(), torch.zeros(n, dtype=torch.long, device="cuda")).backward()
    assert len(half) > 0
    for ours, p in zip(half, layer.parameters(), strict=True):
        torch.testing.assert_close(ours, p.grad, rtol=0.02, atol=0.01)
