"""Convolution over time and frequency: the laws, loops, steps and streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder, build_spectrogram
from catena.encoders.causal import CausalEncoder
from catena.encoders.config import ConvolutionConfig, DilatedConfig, RecurrentConfig, SpectrogramConfig
from catena.encoders.spectrogram import SpectralLayer
from catena.errors import ConfigError
from tests.laws.causal_laws import SteppingLaws
from tests.laws.encoder_laws import EncoderLaws, sees_the_future
from tests.oracle.images import correlate

SMALL = ConvolutionConfig(windows=(3,), filters=16, n_layers=2, dilations=(1, 2))
CAUSAL: dict[str, Any] = {
    "convolution": SMALL.model_copy(update={"padding": "causal"}),
    "dilated": DilatedConfig(d=12, n_layers=2),
    "lstm": RecurrentConfig(d=5, bidirectional=False),
}


class TestSpectrogram(EncoderLaws):
    @pytest.fixture(params=[(12,), (8, 12)])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        return lambda: build_encoder(SpectrogramConfig(channels=request.param, encoder=SMALL), 7)


class TestCausalSpectrogram(SteppingLaws):
    @pytest.fixture(params=CAUSAL)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], CausalEncoder]:
        config = SpectrogramConfig(channels=(8, 16), causal=True, encoder=CAUSAL[request.param])
        return lambda: build_spectrogram(config, 7)


@pytest.mark.parametrize("causal", [True, False])
def test_spectral_layer_equals_loops(causal: bool) -> None:
    layer = SpectralLayer(2, 3, causal).double().eval()
    x = np.random.default_rng(0).standard_normal((2, 5, 7))
    early = 2 if causal else 1
    padded = np.pad(x, ((0, 0), (early, 2 - early), (1, 1)))
    weight = layer.convolution.weight.detach().numpy()
    wanted = correlate(padded, weight, np.zeros(3))[:, :, ::2] / np.sqrt(1 + 1e-5)
    found = layer(torch.from_numpy(x)[None], torch.ones(1, 5, dtype=torch.bool))[0].detach().numpy()
    np.testing.assert_allclose(found, np.maximum(wanted, 0), atol=1e-12)


def test_context_is_the_receptive_field_by_gradient() -> None:
    encoder = build_spectrogram(SpectrogramConfig(channels=(2, 3), encoder=SMALL), 9).double().eval()
    for parameter in encoder.parameters():
        parameter.data = parameter.data.abs() + 0.01
    x = torch.rand(1, 41, 9, dtype=torch.float64, requires_grad=True)
    encoder(x)[0, 20].sum().backward()
    assert x.grad is not None
    used = (x.grad != 0).any(dim=-1)[0].nonzero().flatten()
    assert encoder.context is not None
    before, after = encoder.context
    assert 20 - used[0] <= before
    assert used[-1] == 20 + after == 20 + 2 + 3


def test_encoders_over_both_directions_depend_on_later_frames() -> None:
    config = SpectrogramConfig(channels=(4,), causal=True, encoder=RecurrentConfig(d=4))
    encoder = build_spectrogram(config, 5).double()
    assert sees_the_future(encoder)
    assert encoder.looks_ahead
    assert encoder.context is None
    with pytest.raises(ConfigError, match="depends on later positions"):
        encoder.begin(1, torch.device("cpu"), torch.float64)


def test_statistics_of_batch_normalization_ignore_padding() -> None:
    encoders = [build_spectrogram(SpectrogramConfig(channels=(3,), encoder=SMALL), 6).double() for _ in range(2)]
    encoders[1].load_state_dict(encoders[0].state_dict())
    x, lengths = torch.randn(2, 9, 6, dtype=torch.float64), torch.tensor([9, 4])
    longer = torch.cat((x, torch.randn(2, 20, 6, dtype=torch.float64)), dim=1)
    encoders[0].train()(x, lengths)
    encoders[1].train()(longer, lengths)
    torch.testing.assert_close(encoders[0].state_dict(), encoders[1].state_dict())
