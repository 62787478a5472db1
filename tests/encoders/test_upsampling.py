"""Upsampling of slower series, compared with plain loops."""

from __future__ import annotations

import pytest
import torch

from catena.encoders.upsampling import LearnedUpsampling, LinearUpsampling, RepeatUpsampling, Upsampling
from catena.errors import ConfigError

SERIES = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("hop", [1, 2, 6])
def test_repetition_equals_plain_loop(hop: int) -> None:
    y = RepeatUpsampling(3, hop)(SERIES)
    assert y.shape == (2, 5 * hop, 3)
    for t in range(5 * hop):
        assert torch.equal(y[:, t], SERIES[:, t // hop])


@pytest.mark.parametrize("hop", [1, 2, 6])
def test_linear_interpolation_equals_plain_loop(hop: int) -> None:
    y = LinearUpsampling(3, hop)(SERIES)
    assert y.shape == (2, 5 * hop, 3)
    for t in range(5 * hop):
        j, i = divmod(t, hop)
        expected = SERIES[:, j] + (SERIES[:, min(j + 1, 4)] - SERIES[:, j]) * i / hop
        torch.testing.assert_close(y[:, t], expected)


@pytest.mark.parametrize("strides", [(6,), (2, 3), (3, 2, 1)])
def test_learned_upsampling_with_box_filters_equals_repetition(strides: tuple[int, ...]) -> None:
    learned = LearnedUpsampling(3, strides).double()
    assert learned.hop == 6
    torch.testing.assert_close(learned(SERIES), RepeatUpsampling(3, 6)(SERIES))


def test_learned_upsampling_equals_plain_loop() -> None:
    learned = LearnedUpsampling(3, (2,)).double()
    for parameter in learned.parameters():
        torch.nn.init.normal_(parameter)
    rise, smooth = learned.risers[0], learned.smoothers[0]
    raised = torch.zeros(2, 10, 3, dtype=torch.float64)
    for t in range(10):
        raised[:, t] = SERIES[:, t // 2] @ rise.weight[:, :, t % 2] + rise.bias
    expected = torch.zeros_like(raised)
    for t in range(10):
        expected[:, t] = smooth.bias
        for k in range(3):
            expected[:, t] += raised[:, min(max(t + k - 1, 0), 9)] @ smooth.weight[:, :, k].T
    torch.testing.assert_close(learned(SERIES), expected)


@pytest.mark.parametrize("make", [lambda: RepeatUpsampling(3, 4), lambda: LinearUpsampling(3, 4)])
def test_constant_series_stays_constant(make: object) -> None:
    module: Upsampling = make()
    constant = SERIES[:, :1].expand(2, 5, 3)
    torch.testing.assert_close(module(constant), constant[:, :1].expand(2, 20, 3))


def test_learned_upsampling_trains_every_parameter() -> None:
    learned = LearnedUpsampling(3, (2, 2)).double()
    learned(SERIES).square().sum().backward()
    assert all(parameter.grad is not None and (parameter.grad != 0).any() for parameter in learned.parameters())


def test_hop_of_zero_raises() -> None:
    with pytest.raises(ConfigError, match="hop must be at least 1, got 0"):
        RepeatUpsampling(3, 0)
