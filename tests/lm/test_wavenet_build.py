"""WaveNets from configs: sizes, initial values, and generation with a mixture of logistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from catena.data.mulaw import decode_mulaw, level_positions
from catena.encoders.upsampling import LearnedUpsampling, LinearUpsampling, RepeatUpsampling
from catena.lm.wavenet_build import build_wavenet
from catena.lm.wavenet_config import WaveNetConfig
from catena.randomness import counted_uniforms

SMALL = {"d": 8, "d_skip": 12, "n_layers": 3, "n_blocks": 2}


def test_default_has_the_field_and_size_of_the_benchmark() -> None:
    config = WaveNetConfig(d_skip=64)
    model = build_wavenet(config)
    assert model.field == config.field == 2047
    layers = 20 * (2 * 64 * 128 + 128 + 64 * 64 + 64) + 19 * (64 * 64 + 64)
    head = 64 * 64 + 64 + 64 * 256 + 256
    assert sum(p.numel() for p in model.parameters()) == 256 * 64 + layers + head


def test_initial_model_predicts_the_frequencies_and_knows_the_values_of_levels() -> None:
    counts = np.arange(256)
    model = build_wavenet(WaveNetConfig(**SMALL), counts)
    table = model.embedding.weight.detach().numpy()
    np.testing.assert_allclose(table[:, 0], level_positions(), atol=1e-6)
    np.testing.assert_allclose(table[:, 1], decode_mulaw(np.arange(256)), atol=1e-6)
    bias = model.output.scores.bias.detach().double()
    np.testing.assert_allclose(torch.softmax(bias, 0).numpy(), (counts + 1) / (counts + 1).sum(), rtol=1e-5)
    for layer in model.encoder.layers:
        assert (layer.convolution.bias == 0).all()
        limit = (6 / (8 + 8)) ** 0.5 / 6**0.5
        assert layer.onward is None or 0.8 * limit < layer.onward.weight.abs().max() <= limit


@pytest.mark.parametrize(
    ("kind", "expected"), [("repeat", RepeatUpsampling), ("linear", LinearUpsampling), ("learned", LearnedUpsampling)]
)
def test_config_selects_the_conditions(kind: str, expected: type) -> None:
    config = WaveNetConfig(**SMALL, d_speaker=5, upsampling=kind, strides=(2, 3))
    model = build_wavenet(config, n_speakers=3, d_local=4)
    assert isinstance(model.upsampling, expected)
    assert (model.upsampling.hop, config.hop) == (6, 6)
    assert model.speakers.weight.shape == (4, 5)
    assert (model.speakers.weight[-1] == 0).all()
    frames = torch.randn(2, 9, 4)
    assert model.conditioned(torch.tensor([0, -1]), frames).start(2).series.shape == (2, model.field - 1 + 54, 4)


def test_mixture_of_logistics_generates_by_its_own_probabilities() -> None:
    model = build_wavenet(WaveNetConfig(**SMALL, distribution="logistic_mixture", n_logistics=3, n_levels=16)).eval()
    state = model.start(2)
    found = model.generate(state, 30, seed=2)
    uniforms = [counted_uniforms(2, row, 0, 30) for row in range(2)]
    for i in range(30):
        edges = model.log_probs(state)[:, model.first :].double().exp().cumsum(dim=1)
        for row in range(2):
            assert int((edges[row] <= uniforms[row][i] * edges[row, -1]).sum()) == found[row, i]
        state = model.advance(state, found[:, i] + model.first)
    greedy = model.generate(model.start(1), 5, temperature=0.0)
    assert greedy[0, 0] == model.log_probs(model.start(1))[0, model.first :].argmax()


def test_wrong_configs_raise() -> None:
    with pytest.raises(ValidationError, match="strides must have at least one factor"):
        WaveNetConfig(strides=())
    with pytest.raises(ValidationError, match="n_levels"):
        WaveNetConfig(n_levels=257)
