"""Features of baselines: TF-IDF by its formula, pixels, statistics of sounds."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from catena.data.media_config import SoundConfig
from catena.tasks.baselines.features import (
    _interpolate,
    components,
    pixel_rows,
    sound_columns,
    sound_statistics,
    summarize_frames,
    tfidf,
)

TEXTS = [["a", "b", "a"], ["b", "c"], ["c", "c", "b", "d"]]


def test_tfidf_equals_its_formula() -> None:
    found = tfidf(len(TEXTS), 2)
    rows = found.fit_transform(TEXTS).toarray()
    bags = [Counter(tokens) + Counter(map(" ".join, itertools.pairwise(tokens))) for tokens in TEXTS]
    assert set(found.vocabulary_) == set().union(*bags)
    for bag, row in zip(bags, rows, strict=True):
        weights = {}
        for gram, count in bag.items():
            n = sum(gram in other for other in bags)
            weights[gram] = (1 + math.log(count)) * (1 + math.log((1 + len(bags)) / (1 + n)))
        norm = math.sqrt(sum(weight**2 for weight in weights.values()))
        for gram, column in found.vocabulary_.items():
            assert row[column] == pytest.approx(weights.get(gram, 0.0) / norm)


def test_tfidf_drops_rare_ngrams_of_large_data_only() -> None:
    assert tfidf(999, 1).min_df == 1
    assert tfidf(1000, 1).min_df == 2


def test_pixel_rows_average_large_pictures() -> None:
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (8, 16, 3)).astype(np.uint8)
    large = rng.integers(0, 256, (64, 96, 3)).astype(np.uint8)
    assert np.allclose(pixel_rows([small])[0], small.ravel() / 255)
    means = large.reshape(32, 2, 32, 3, 3).mean((1, 3)) / 255  # blocks of 2 x 3 pixels
    assert np.allclose(pixel_rows([large])[0], means.ravel(), atol=1e-6)


def test_components_are_at_most_the_number_of_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 9))
    assert components(rows, 60).fit_transform(rows).shape == (5, 5)


def test_sound_statistics_have_their_definition() -> None:
    config = SoundConfig(n_mels=4)
    columns = sound_columns(config)
    rng = np.random.default_rng(0)
    rows = sound_statistics([rng.normal(size=n).astype(np.float32) for n in (150, 900, 4000)], config)
    assert rows[:, columns.statistics].shape == (3, 6 * 4)
    mean, deviation, low, high, median, change = rows[:, columns.statistics].reshape(3, 6, 4).swapaxes(0, 1)
    frames = rows[:, columns.frames].reshape(3, 20, 4)
    assert (deviation[0] == 0).all()  # the first sound has a single frame
    assert (change[0] == 0).all()
    for value in (mean, low, high, median):
        assert np.allclose(value[0], frames[0, 0])
    assert ((low <= mean) & (mean <= high) & (low <= median) & (median <= high)).all()
    assert (frames.min(1) >= low - 1e-5).all()
    assert (frames.max(1) <= high + 1e-5).all()
    assert (change[1:] > 0).all()
    assert np.isfinite(rows).all()


def test_rhythm_has_its_definition() -> None:
    frames = np.random.default_rng(1).normal(size=(90, 3))
    found = summarize_frames(frames)[sound_columns(SoundConfig(n_mels=3)).rhythm]
    by_band = found[: 7 * 3].reshape(7, 3)
    shapes = found[7 * 3 : 9 * 3].reshape(2, 3)
    groups = frames - frames.mean(0)  # fewer bands than groups: each band is one
    for m in range(3):
        x = frames[:, m]
        change = [x[t] - x[t - 4] for t in range(4, 90)]
        assert np.allclose(by_band[:4, m], [np.quantile(x, q) for q in (0.05, 0.25, 0.75, 0.95)])
        increase = sum(max(c, 0.0) for c in change) / len(change)
        assert np.allclose(by_band[4:, m], [np.std(change), increase, np.quantile(np.abs(change), 0.95)])
        cosine = [sum(row[b] * math.cos(math.pi * m * (b + 0.5) / 3) for b in range(3)) for row in frames]
        changes = [cosine[t] - cosine[t - 4] for t in range(4, 90)]
        assert np.allclose(shapes[:, m], [np.std(cosine), np.std(changes)])
        modulation, own = found[27 : 27 + 13 * 3].reshape(13, 3)[:, m], groups[:, m]
        windowed = [own[t] * (0.5 - 0.5 * math.cos(2 * math.pi * t / 511)) for t in range(90)]
        bins = [abs(sum(w * np.exp(-2j * np.pi * k * t / 512) for t, w in enumerate(windowed))) ** 2 for k in (2, 3)]
        assert np.isclose(modulation[1], math.log(sum(bins) / 2 + 1e-3))
        correlation = found[27 + 13 * 3 :].reshape(5, 3)[:, m]
        lag_20 = sum(own[t] * own[t + 20] for t in range(70)) / 70 / (np.var(own) + 1e-6)
        assert np.isclose(correlation[2], lag_20)
        assert correlation[4] == 0  # 90 frames have none 100 frames before


def test_rhythm_separates_a_pulse_from_noise() -> None:
    time = np.arange(600)[:, None]
    columns = sound_columns(SoundConfig(n_mels=8))
    pulse = np.where(time % 20 < 3, 1.0, 0.0).repeat(8, axis=1)
    noise = np.random.default_rng(0).permutation(pulse)  # the same values in another order
    correlation = [summarize_frames(x)[columns.rhythm][-40:].reshape(5, 8)[2] for x in (pulse, noise)]
    assert (correlation[0] > 0.9).all()
    assert (np.abs(correlation[1]) < 0.2).all()


def test_frames_are_interpolated_linearly() -> None:
    frames = np.stack((np.arange(39.0), np.arange(39.0) ** 2), axis=1)
    found = _interpolate(frames).reshape(20, 2)
    at = np.linspace(0, 38, 20)
    assert np.allclose(found, np.stack([np.interp(at, np.arange(39), column) for column in frames.T], axis=1))
