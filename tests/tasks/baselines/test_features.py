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
    count_statistics,
    pixel_rows,
    sound_statistics,
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
    rng = np.random.default_rng(0)
    rows = sound_statistics([rng.normal(size=n).astype(np.float32) for n in (150, 900, 4000)], config)
    assert rows.shape == (3, count_statistics(config) + 20 * 4)
    mean, deviation, low, high, median, change = rows[:, : count_statistics(config)].reshape(3, 6, 4).swapaxes(0, 1)
    frames = rows[:, count_statistics(config) :].reshape(3, 20, 4)
    assert (deviation[0] == 0).all()  # the first sound has a single frame
    assert (change[0] == 0).all()
    for value in (mean, low, high, median):
        assert np.allclose(value[0], frames[0, 0])
    assert ((low <= mean) & (mean <= high) & (low <= median) & (median <= high)).all()
    assert (frames.min(1) >= low - 1e-5).all()
    assert (frames.max(1) <= high + 1e-5).all()
    assert (change[1:] > 0).all()


def test_frames_are_interpolated_linearly() -> None:
    frames = np.stack((np.arange(39.0), np.arange(39.0) ** 2), axis=1)
    found = _interpolate(frames).reshape(20, 2)
    at = np.linspace(0, 38, 20)
    assert np.allclose(found, np.stack([np.interp(at, np.arange(39), column) for column in frames.T], axis=1))
