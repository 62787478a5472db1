"""Local conditions: log-mel spectrograms against a plain Fourier sum, windows against whole recordings, bad files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data.examples import SourceLocation
from catena.data.mulaw import decode_mulaw
from catena.data.recordings import Recordings
from catena.encoders.log_mel import LogMel, mel_filters
from catena.encoders.sound import FeatureNorm
from catena.errors import DataError, FormatError
from catena.tasks.lm.sound.data import RecordingExample, get_model
from catena.tasks.lm.sound.model import LogMelSeries, StoredSeries, fit_norm, open_series
from tests.tasks.lm.sound.conftest import RATE, make_config


def make_series(n: int = 333) -> LogMelSeries:
    levels = np.random.default_rng(2).integers(256, size=n, dtype=np.uint8)
    config = get_model(make_config(Path("x"), "log_mel"))
    return LogMelSeries(Recordings.from_levels([levels, levels[:7]], sample_rate=RATE), LogMel(config.log_mel))


def expected_frame(samples: np.ndarray, f: int, hop: int = 20, wide: int = 50) -> list[float]:
    """The log-mel vector of the frame whose middle is the middle of samples f hop to (f + 1) hop."""
    start = f * hop - (wide - hop) // 2
    at = [samples[t] if 0 <= t < len(samples) else 0.0 for t in range(start, start + wide)]
    window = [0.5 - 0.5 * math.cos(2 * math.pi * i / wide) for i in range(wide)]
    power = [
        abs(sum(x * w * np.exp(-2j * np.pi * k * i / 64) for i, (x, w) in enumerate(zip(at, window, strict=True)))) ** 2
        for k in range(33)
    ]
    filters = mel_filters(5, 64, RATE, 60, 0.475 * RATE).numpy()
    return [math.log(max(1e-6, sum(p * f for p, f in zip(power, filters[:, m], strict=True)))) for m in range(5)]


def test_log_mel_frames_are_centered_on_their_samples() -> None:
    series = make_series()
    assert (series.n_frames(0), series.n_frames(1)) == (17, 1)
    samples = decode_mulaw(series.recordings[0]).astype(np.float64)
    found = series.read(0, 0, 17).numpy()
    for f in (0, 1, 8, 15, 16):
        np.testing.assert_allclose(found[f], expected_frame(samples, f), atol=1e-3)


def test_blocks_and_windows_equal_the_whole_series(monkeypatch: pytest.MonkeyPatch) -> None:
    series, norm = make_series(), FeatureNorm(5)
    fit_norm(norm, series, 2)
    whole = norm(series.read(0, 0, 17))
    monkeypatch.setattr("catena.tasks.lm.sound.model._BLOCK", 3)
    torch.testing.assert_close(norm(series.read(0, 0, 17)), whole, atol=1e-5, rtol=1e-5)
    for first, n in ((-4, 6), (0, 17), (5, 3), (14, 9), (-3, 30)):
        found = series.window(0, first, n, norm)
        assert len(found) == n
        for f, vector in zip(range(first, first + n), found, strict=True):
            expected = torch.zeros(5) if f < 0 else whole[min(f, 16)]
            torch.testing.assert_close(vector, expected, atol=1e-5, rtol=1e-5)
    pair = series.windows(np.array([1, 0]), np.array([-1, 4]), 2, norm)
    torch.testing.assert_close(pair[1], whole[4:6], atol=1e-5, rtol=1e-5)
    assert (pair[0, 0] == 0).all()


def test_norm_is_of_the_training_frames() -> None:
    series, norm = make_series(), FeatureNorm(5)
    fit_norm(norm, series, 2)
    frames = torch.cat((series.read(0, 0, 17), series.read(1, 0, 1)))
    torch.testing.assert_close(norm.mean, frames.mean(dim=0))
    torch.testing.assert_close(norm.deviation, frames.std(dim=0, correction=0))


def example(series: Path, start: int = 0) -> RecordingExample:
    return RecordingExample(Path("a.wav"), SourceLocation("a.wav", 1), series=series, start=start)


def test_stored_series_starts_where_its_piece_does(tmp_path: Path) -> None:
    array = np.arange(20.0).reshape(10, 2)
    np.save(tmp_path / "a.npy", array)
    series = StoredSeries([example(tmp_path / "a.npy", start=60)], np.array([75]), 20, None)
    assert (series.n_frames(0), series.d) == (4, 2)
    assert series.read(0, 1, 3).tolist() == array[4:6].tolist()


def test_bad_series_raise_one_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.zeros((3, 2)))
    np.save(tmp_path / "flat.npy", np.zeros(3))
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    (tmp_path / "broken.npy").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"short.npy must have at least 4 vectors, one for each 20 samples of a.wav"):
        StoredSeries([example(tmp_path / "short.npy")], np.array([61]), 20, None)
    with pytest.raises(DataError, match=r"short.npy must have 5 features, as the others, got 2"):
        open_series(tmp_path / "short.npy", 5)
    for name in ("flat", "words"):
        with pytest.raises(FormatError, match=rf"{name}.npy must have the shape \(frames, features\), got "):
            open_series(tmp_path / f"{name}.npy")
    with pytest.raises(FormatError, match=r"broken.npy cannot be read as an array"):
        open_series(tmp_path / "broken.npy")
    with pytest.raises(FormatError, match=r"File not found: .*none.npy, the series of a recording"):
        open_series(tmp_path / "none.npy")
