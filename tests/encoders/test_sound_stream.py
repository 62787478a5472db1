"""Streams: scores equal those of the whole recording for any division, with bounded memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data.audio import write_wav
from catena.data.media_config import SoundConfig
from catena.encoders.build import build_encoder
from catena.encoders.config import (
    ConvolutionConfig,
    DilatedConfig,
    RecurrentConfig,
    SoundEncoderConfig,
    SpectrogramConfig,
    TransformerConfig,
)
from catena.encoders.log_mel import LogMel, build_frames
from catena.encoders.sound import SoundNetwork, build_sound_network
from catena.encoders.sound_stream import ScoreStream, score_blocks, score_recording
from catena.errors import ConfigError

CONFIG = SoundConfig(sample_rate=1000, n_mels=5, low=20)
"""Frames of 25 samples, hops of 10."""

ENCODERS: dict[str, SoundEncoderConfig] = {
    "centered": ConvolutionConfig(windows=(3, 4), filters=4, n_layers=3, dilations=(1, 2, 3), residual=True),
    "centered-norm": ConvolutionConfig(windows=(5,), filters=6, n_layers=2, norm="batch"),
    "causal": ConvolutionConfig(windows=(3,), filters=6, n_layers=3, dilations=(1, 2, 4), padding="causal"),
    "dilated": DilatedConfig(d=6, n_layers=3),
    "lstm": RecurrentConfig(d=5, bidirectional=False, n_layers=2, connections="skip"),
    "spectrogram": SpectrogramConfig(
        channels=(3, 4), encoder=ConvolutionConfig(windows=(3,), filters=4, n_layers=2, dilations=(1, 2), norm="batch")
    ),
    "causal-spectrogram": SpectrogramConfig(channels=(3,), causal=True, encoder=DilatedConfig(d=4, n_layers=2)),
    "single-frame": ConvolutionConfig(windows=(1,), filters=4),
}


def build(name: str, k: int = 2) -> tuple[LogMel, SoundNetwork]:
    network = build_sound_network(ENCODERS[name], CONFIG, k).double()
    network.norm.fit(torch.randn(100, 5) * 3 - 4)
    return LogMel(CONFIG).double(), network.eval()


def read(name_or_parts: tuple[LogMel, SoundNetwork], x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    stream = ScoreStream(*name_or_parts)
    return torch.cat([*(stream.push(piece) for piece in x.split(sizes)), stream.finish()])


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("sizes", [[500], [1] * 500, [10] * 50, [137, 3, 0, 260, 100]], ids=len)
def test_stream_equals_whole_recording(name: str, sizes: list[int]) -> None:
    frames, network = build(name)
    x = torch.randn(500, dtype=torch.float64)
    whole = network(*frames(x[None])).frames[0]
    torch.testing.assert_close(read((frames, network), x, sizes), whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("n", [1, 24, 25, 36])
def test_short_recordings_equal_the_network(name: str, n: int) -> None:
    frames, network = build(name)
    x = torch.randn(n, dtype=torch.float64)
    whole = network(*frames(x[None])).frames[0]
    torch.testing.assert_close(read((frames, network), x, [1] * n), whole, rtol=0, atol=1e-10)


def test_waveform_input_streams_as_well() -> None:
    config = CONFIG.model_copy(update={"features": "waveform"})
    frames = build_frames(config)
    network = build_sound_network(DilatedConfig(d=6, n_layers=2), config, 1).double().eval()
    x = torch.randn(300, dtype=torch.float64)
    torch.testing.assert_close(read((frames, network), x, [77, 223]), network(*frames(x[None])).frames[0])


@pytest.mark.parametrize("name", ["centered", "dilated"])
def test_memory_of_a_stream_does_not_grow(name: str) -> None:
    frames, network = build(name)
    stream = ScoreStream(frames, network)
    sizes = []
    for _ in range(20):
        stream.push(torch.randn(200, dtype=torch.float64))
        held = stream._reader.__dict__.values()
        tensors = [x for value in held for x in (value if isinstance(value, tuple) else (value,)) if torch.is_tensor(x)]
        sizes.append(sum(x.numel() for x in tensors))
    assert sizes[-1] == sizes[5] > 0


def test_scores_come_late_only_by_the_frames_ahead() -> None:
    frames, network = build("centered")
    _, after = network.encoder.context  # type: ignore[union-attr, misc]
    assert after == 2 + 4 + 6  # half of the widest window, rounded up, in each layer
    stream = ScoreStream(frames, network)
    pushed = stream.push(torch.randn(25 + 10 * 39, dtype=torch.float64))
    assert len(pushed) == 40 - after


def test_encoders_that_need_the_whole_recording_raise() -> None:
    bidirectional = build_sound_network(RecurrentConfig(d=4), CONFIG, 1)
    with pytest.raises(ConfigError, match="depends on later positions"):
        ScoreStream(LogMel(CONFIG), bidirectional)
    attention = SoundNetwork(build_encoder(TransformerConfig(d=4, n_heads=1), 5), 1)
    with pytest.raises(ConfigError, match="depends on later positions"):
        ScoreStream(LogMel(CONFIG), attention)


def test_score_recording_reads_files_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("soundfile")
    frames, network = LogMel(CONFIG), build("centered", k=1)[1].float()
    x = np.random.default_rng(0).uniform(-0.5, 0.5, 4321).astype(np.float32)
    write_wav(tmp_path / "a.wav", x, 1000)
    monkeypatch.setattr("catena.encoders.sound_stream.BLOCK_SECONDS", 0.333)
    curve = score_recording(tmp_path / "a.wav", frames, network)
    whole = network(*frames(torch.from_numpy(np.rint(x * 32768).astype(np.float32) / 32768)[None])).frames[0]
    np.testing.assert_allclose(curve.scores, whole.detach().numpy(), atol=1e-4)
    assert (curve.hop, curve.seconds) == (0.01, 4.321)


def test_empty_stream_has_no_scores() -> None:
    frames, network = build("centered", k=1)
    assert score_blocks([], frames, network).scores.shape == (0, 1)


@pytest.mark.data
def test_stereo_copy_at_another_rate_gives_nearly_the_same_curve(real_data: Path, tmp_path: Path) -> None:
    soundfile, soxr = pytest.importorskip("soundfile"), pytest.importorskip("soxr")
    config = SoundConfig()
    frames = LogMel(config)
    torch.manual_seed(0)
    network = build_sound_network(ConvolutionConfig(windows=(5,), filters=16, n_layers=2), config, 3).eval()
    path = real_data / "free_spoken_digits" / "3_jackson_0.wav"
    samples, rate = soundfile.read(path)
    copy = soxr.resample(samples, rate, 44100)
    soundfile.write(tmp_path / "copy.wav", np.stack((copy, copy), axis=1), 44100, subtype="FLOAT")
    network.norm.fit(frames(torch.from_numpy(samples.astype(np.float32))[None])[0][0])
    one, other = (score_recording(p, frames, network) for p in (path, tmp_path / "copy.wav"))
    n = min(len(one.scores), len(other.scores))
    assert abs(len(one.scores) - len(other.scores)) <= 1
    assert np.abs(one.scores[:n] - other.scores[:n]).mean() < 0.05 * one.scores.std()
