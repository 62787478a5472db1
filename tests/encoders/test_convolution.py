"""Convolution for each position: the laws, and every window compared to plain loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from catena.encoders.base import Encoder
from catena.encoders.build import build_convolution, build_encoder
from catena.encoders.config import ConvolutionConfig
from tests.laws.encoder_laws import CausalEncoderLaws, EncoderLaws, sees_the_future
from tests.oracle.convolution import convolve


class TestConvolution(EncoderLaws):
    @pytest.fixture(
        params=[
            {"windows": (1, 2, 5)},
            {"windows": (9,), "activation": "tanh"},
            {"n_layers": 2, "residual": True, "dropout": 0.5},
            {"norm": "layer", "activation": "gelu"},
            {"norm": "batch", "activation": "prelu"},
            {"n_layers": 3, "windows": (3,), "dilations": (1, 2), "residual": True},
        ],
        ids=str,
    )
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        settings = ConvolutionConfig(filters=8, **request.param)
        return lambda: build_encoder(settings, 5)


class TestCausalConvolution(CausalEncoderLaws):
    @pytest.fixture(params=[(1, (1,)), (3, (1,)), (2, (3, 1))])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        n_layers, dilations = request.param
        settings = ConvolutionConfig(
            windows=(2, 3), filters=12, padding="causal", n_layers=n_layers, dilations=dilations
        )
        return lambda: build_encoder(settings, 5)


def test_centered_convolution_depends_on_later_positions() -> None:
    assert sees_the_future(build_encoder(ConvolutionConfig(windows=(13,), filters=4), 5).double())


@pytest.mark.parametrize("padding", ["same", "causal"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 7])
def test_convolution_window_equals_plain_loops(padding: str, window: int, dilation: int) -> None:
    encoder = build_convolution(
        ConvolutionConfig(windows=(window,), filters=3, padding=padding, activation="identity", dilations=(dilation,)),
        2,
    ).double()
    convolution = encoder.layers[0].convolutions[0]
    taps = convolution.weight.detach().numpy().transpose(2, 0, 1)  # w f d
    kernel = np.zeros(((window - 1) * dilation + 1, *taps.shape[1:]))
    kernel[::dilation] = taps  # a dilated kernel is a longer one with zeros between its taps
    bias = convolution.bias.detach().numpy()
    before = (window - 1 if padding == "causal" else (window - 1) // 2) * dilation
    lengths = torch.tensor([5, 2])
    x = torch.randn(2, 5, 2, dtype=torch.float64)
    y = encoder(x, lengths).detach().numpy()
    for i, n in enumerate(lengths.tolist()):
        wanted = convolve(x[i, :n].numpy(), kernel, bias, before, places=n)
        np.testing.assert_allclose(y[i, :n], wanted, atol=1e-12)


def test_convolution_concatenates_windows_and_stacks_layers() -> None:
    encoder = build_convolution(ConvolutionConfig(windows=(1, 3), filters=4, n_layers=2, residual=True), 5)
    assert encoder.d_out == 8
    assert [c.in_channels for layer in encoder.layers for c in layer.convolutions] == [5, 5, 8, 8]
    with torch.no_grad():
        for convolution in encoder.layers[1].convolutions:
            convolution.weight.zero_()
            convolution.bias.zero_()
    x, lengths = torch.randn(2, 3, 5), torch.tensor([3, 2])
    mask = torch.arange(3) < lengths[:, None]
    below = encoder.layers[0](x.masked_fill(~mask[..., None], 0.0), mask)
    torch.testing.assert_close(encoder(x, lengths), below)  # the second layer adds nothing to its input
