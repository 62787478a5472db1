"""Normalization: batch norm counts only real positions and equals torch; layer norm is per vector."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from catena.encoders.layers import BatchNorm, LayerNorm, NoNorm, build_norm
from catena.errors import UnknownNameError

MASK = torch.tensor([[True, True, True], [True, False, False]])


def test_batch_norm_in_training_equals_the_formula_over_real_positions() -> None:
    norm = BatchNorm(3).double()
    with torch.no_grad():
        norm.norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        norm.norm.bias.copy_(torch.tensor([0.5, 0.0, -0.5]))
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    y = norm(x, MASK)
    real = x[MASK].numpy()
    mean, variance = real.mean(axis=0), real.var(axis=0)
    wanted = [1.0, 2.0, 3.0] * (real - mean) / (variance + 1e-5) ** 0.5 + [0.5, 0.0, -0.5]
    torch.testing.assert_close(y[MASK], torch.from_numpy(wanted), atol=1e-12, rtol=0)
    running = norm.norm.running_mean
    assert running is not None
    torch.testing.assert_close(running, 0.1 * torch.from_numpy(mean), atol=1e-12, rtol=0)


def test_batch_norm_ignores_padding_in_values_gradients_and_running_statistics() -> None:
    results = []
    for value in (0.0, 1e6):
        torch.manual_seed(3)
        norm = BatchNorm(3).double()
        x = torch.randn(2, 3, 3, dtype=torch.float64).masked_fill(~MASK[..., None], value).requires_grad_()
        y = norm(x, MASK)
        y[MASK].pow(3).sum().backward()
        results.append((y[MASK], x.grad, norm.norm.running_mean, norm.norm.running_var))
    torch.testing.assert_close(results[0], results[1])
    assert (results[0][1][~MASK] == 0).all()


def test_batch_norm_equals_torch_on_full_batches() -> None:
    ours, theirs = BatchNorm(4), nn.BatchNorm1d(4)
    mask = torch.ones(5, 6, dtype=torch.bool)
    for _ in range(3):
        x = torch.randn(5, 6, 4) * 3 + 1
        torch.testing.assert_close(ours(x, mask), theirs(x.flatten(0, 1)).view_as(x))
    ours.eval()
    theirs.eval()
    x = torch.randn(5, 6, 4)
    torch.testing.assert_close(ours(x, mask), theirs(x.flatten(0, 1)).view_as(x))


def test_batch_norm_of_at_most_one_position_uses_running_statistics() -> None:
    norm = BatchNorm(3)
    x = torch.randn(2, 3, 3)
    one = torch.zeros(2, 3, dtype=torch.bool)
    assert torch.equal(norm(x, one), torch.zeros_like(x))
    one[0, 0] = True
    trained = norm(x, one)[0, 0]
    torch.testing.assert_close(trained, norm.eval()(x, one)[0, 0])
    torch.testing.assert_close(trained, x[0, 0] / (1 + 1e-5) ** 0.5)


def test_layer_norm_gives_each_vector_mean_zero_and_variance_one() -> None:
    y = LayerNorm(50)(torch.randn(2, 3, 50) * 4 + 2, MASK)
    torch.testing.assert_close(y.mean(-1), torch.zeros(2, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(-1, correction=0), torch.ones(2, 3), atol=1e-4, rtol=0)


def test_build_norm_by_name() -> None:
    assert [type(build_norm(name, 3)) for name in ("none", "batch", "layer")] == [
        NoNorm,
        BatchNorm,
        LayerNorm,
    ]
    x = torch.randn(2, 3, 3)
    assert build_norm("none", 3)(x, MASK) is x
    with pytest.raises(UnknownNameError, match="no normalization is called 'layre': did you mean 'layer'"):
        build_norm("layre", 3)
