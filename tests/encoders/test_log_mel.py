"""Log-mel energies: equal to the definition, the same for streams and whole recordings, with exact frame counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from catena.data.media_config import SoundConfig
from catena.encoders.log_mel import LogMel, WaveformFrames, build_frames, hertz_to_mel, mel_filters
from tests.oracle import sound as oracle

SMALL = SoundConfig(sample_rate=1000, frame=0.025, hop=0.010, n_mels=6, low=20)
"""Frames of 25 samples, hops of 10, FFT of 32."""


def front_end(config: SoundConfig = SMALL) -> LogMel:
    made = LogMel(config)
    made.window = torch.hann_window(config.n_frame, dtype=torch.float64)
    made.filters = mel_filters(config.n_mels, made.n_fft, config.sample_rate, config.low, config.upper)
    return made


def test_log_mel_equals_the_definition() -> None:
    made = front_end()
    x = torch.randn(1, 118, dtype=torch.float64)
    weights = oracle.mel_weights(6, 32, 1000, 20, SMALL.upper)
    np.testing.assert_allclose(made.filters.T, weights, atol=1e-12)
    wanted = oracle.log_mel(x[0].numpy(), 25, 10, 32, weights, 1e-6)
    found, n = made(x)
    assert n.tolist() == [10]
    np.testing.assert_allclose(found[0], wanted, atol=1e-9)


def test_default_front_end_has_the_usual_sizes() -> None:
    config = SoundConfig()
    made = LogMel(config)
    assert (config.n_frame, config.n_hop, made.n_fft, made.d_out) == (200, 80, 256, 40)
    assert config.upper == 3800
    assert (made.filters.sum(0) > 0).all()
    assert hertz_to_mel(700) == pytest.approx(2595 * math.log10(2))


def test_default_front_end_equals_the_definition() -> None:
    config = SoundConfig()
    x = 0.1 * torch.randn(1, 280)
    weights = oracle.mel_weights(40, 256, 8000, 60, 3800)
    wanted = oracle.log_mel(x[0].double().numpy(), 200, 80, 256, weights, 1e-6)
    np.testing.assert_allclose(LogMel(config)(x)[0][0], wanted, atol=1e-4)


@pytest.mark.parametrize(("n", "frames"), [(1, 1), (24, 1), (25, 1), (34, 1), (35, 2), (45, 3), (118, 10)])
def test_number_of_frames(n: int, frames: int) -> None:
    found, lengths = front_end()(torch.randn(1, n, dtype=torch.float64))
    assert lengths.tolist() == [frames] == [found.shape[1]]


def test_short_sound_is_padded_with_zeros_to_one_frame() -> None:
    x = torch.randn(1, 9, dtype=torch.float64)
    padded = torch.nn.functional.pad(x, (0, 16))
    assert torch.equal(front_end()(x)[0], front_end()(padded)[0])


def test_padding_and_batch_do_not_change_features() -> None:
    made, lengths = front_end(), torch.tensor([118, 40, 7])
    x = torch.randn(3, 118, dtype=torch.float64)
    found, n = made(x.masked_fill(torch.arange(118) >= lengths[:, None], math.nan), lengths)
    for i, size in enumerate(lengths.tolist()):
        alone, m = made(x[i : i + 1, :size])
        torch.testing.assert_close(found[i, : n[i]], alone[0], rtol=0, atol=1e-10)
        assert m[0] == n[i]


@pytest.mark.parametrize("kind", ["log_mel", "waveform"])
@pytest.mark.parametrize("sizes", [[1] * 118, [118], [3, 60, 55], [26, 34, 58]])
def test_stream_equals_whole_recording(kind: str, sizes: list[int]) -> None:
    made = front_end() if kind == "log_mel" else WaveformFrames(SMALL.model_copy(update={"features": "waveform"}))
    x = torch.randn(2, 118, dtype=torch.float64)
    whole = made(x)[0]
    waiting, parts = x[:, :0], []
    for piece in x.split(sizes, dim=1):
        features, waiting = made.continue_(torch.cat((waiting, piece), dim=1))
        assert waiting.shape[1] < 25 + 10  # memory does not grow
        parts.append(features)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-10)


def test_gain_adds_a_constant() -> None:
    x = torch.randn(1, 400, dtype=torch.float64)
    difference = front_end()(10 * x)[0] - front_end()(x)[0]
    torch.testing.assert_close(difference, torch.full_like(difference, math.log(100)))


def test_silence_scores_the_floor() -> None:
    found = front_end()(torch.zeros(1, 50, dtype=torch.float64))[0]
    torch.testing.assert_close(found, torch.full_like(found, math.log(1e-6)), rtol=0, atol=1e-12)


def test_tone_is_loudest_in_its_band() -> None:
    made = LogMel(SoundConfig())
    corners = torch.linspace(hertz_to_mel(60), hertz_to_mel(3800), 42)
    for band in (5, 15, 30):
        hertz = 700 * (10 ** (corners[band + 1].item() / 2595) - 1)
        tone = torch.sin(2 * math.pi * hertz * torch.arange(2000) / 8000)[None]
        assert (made(tone)[0].argmax(-1) == band).all()


def test_waveform_frames_are_the_samples() -> None:
    made = build_frames(SMALL.model_copy(update={"features": "waveform"}))
    x = torch.randn(1, 50)
    found, n = made(x)
    assert (made.d_out, n.tolist()) == (25, [3])
    for t in range(3):
        assert torch.equal(found[0, t], x[0, 10 * t : 10 * t + 25])


def test_buffers_are_not_saved_because_the_config_determines_them() -> None:
    assert LogMel(SMALL).state_dict() == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"high": 5000.0}, r"high must be above low = 60 and at most 4000 Hz, .*, got 5000\. Use 3800\."),
        ({"low": 3900.0}, r"high must be above low = 3900 .*, got 3800\. Use"),
        ({"hop": 1e-5}, r"frame and hop must have at least 2 and 1 samples at 8000 Hz, got 0\.025 and 1e-05 s\. Use"),
    ],
)
def test_impossible_config_raises(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SoundConfig(**options)
