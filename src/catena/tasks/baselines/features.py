"""Features for the models of scikit-learn: TF-IDF of tokens, components of pixels, statistics of log-mel energies.

Every function returns a transformer of scikit-learn, which is fitted on training inputs only, or the inputs of one.
Tested in tests/tasks/baselines/test_features.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional as F

from catena.data.media_config import SoundConfig
from catena.encoders.log_mel import LogMel
from catena.extras import require

_SIDE = 32
"""Largest height and width of the pictures that are read as pixels."""
_POINTS = 20
"""Number of frames to which a sound is interpolated."""
_GROUPS = 8
"""Number of groups of mel bands whose rhythm is described."""
_MODULATION = 512
"""Frames of a window of modulation frequencies."""
_RANGES = (1, 2, 4, 6, 9, 13, 19, 28, 40, 60, 90, 130, 200, 257)
"""Edges of the ranges of modulation frequencies, in bins of a window."""
_LAGS = (5, 10, 20, 50, 100)
_LARGE = 1000
"""From this number of texts on, n-grams that occur in one text only are left out."""


def tfidf(n_texts: int, ngrams: int) -> Any:
    """TF-IDF of the n-grams of tokenized texts, with log counts and rows of length 1."""
    text = require("sklearn.feature_extraction.text", "sklearn", "--baseline")
    return text.TfidfVectorizer(
        preprocessor=_same,
        tokenizer=_same,
        token_pattern=None,
        lowercase=False,
        ngram_range=(1, ngrams),
        min_df=2 if n_texts >= _LARGE else 1,
        sublinear_tf=True,
        norm="l2",
    )


def _same(tokens: Sequence[str]) -> Sequence[str]:
    return tokens


def pixel_rows(pictures: Sequence[np.ndarray]) -> Float[np.ndarray, "n d"]:
    """The pixels of pictures in [0, 1], averaged to at most 32 x 32, one row for each picture."""
    rows = []
    for pixels in pictures:
        x = torch.from_numpy(np.asarray(pixels)).movedim(-1, 0).float() / 255  # h w 3 -> 3 h w
        size = (min(_SIDE, x.shape[1]), min(_SIDE, x.shape[2]))
        x = x if size == tuple(x.shape[1:]) else F.adaptive_avg_pool2d(x, size)
        rows.append(x.movedim(0, -1).flatten().numpy())
    return np.stack(rows)


def components(rows: Float[np.ndarray, "n d"], n_components: int) -> Any:
    """Principal components of rows."""
    decomposition = require("sklearn.decomposition", "sklearn", "--baseline")
    return decomposition.PCA(min(n_components, *rows.shape), svd_solver="randomized", random_state=0)


def standardize() -> Any:
    """Features with mean 0 and deviation 1."""
    return require("sklearn.preprocessing", "sklearn", "--baseline").StandardScaler()


class SoundColumns(NamedTuple):
    """The columns of each kind of feature in a row of :func:`sound_statistics`."""

    statistics: slice
    frames: slice
    rhythm: slice


def sound_statistics(sounds: Sequence[np.ndarray], config: SoundConfig) -> Float[np.ndarray, "n d"]:
    """Features of the log-mel energies of sounds, in the order of :func:`sound_columns`.

    statistics: for each mel band the mean, deviation, minimum, maximum and median over the frames, and the mean
    absolute difference of neighboring frames.

    frames: the energies of 20 interpolated frames.

    rhythm: how the energies change, see :func:`_rhythm`.
    """
    mel = LogMel(config.model_copy(update={"features": "log_mel"}))
    rows = []
    for samples in sounds:
        with torch.no_grad():
            frames = mel(torch.from_numpy(np.asarray(samples, np.float32))[None])[0][0].numpy()
        rows.append(summarize_frames(frames))
    return np.stack(rows)


def summarize_frames(frames: Float[np.ndarray, "t m"]) -> np.ndarray:
    """The row of a sound from its log-mel energies."""
    return np.concatenate((_statistics(frames), _interpolate(frames), _rhythm(frames)))


def sound_columns(config: SoundConfig) -> SoundColumns:
    """Where the features of :func:`sound_statistics` are."""
    edges = (0, 6 * config.n_mels, (6 + _POINTS) * config.n_mels, None)
    return SoundColumns(*(slice(first, last) for first, last in itertools.pairwise(edges)))


def _statistics(frames: Float[np.ndarray, "t m"]) -> np.ndarray:
    change = np.abs(np.diff(frames, axis=0)).mean(0) if len(frames) > 1 else np.zeros_like(frames[0])
    found = (frames.mean(0), frames.std(0), frames.min(0), frames.max(0), np.median(frames, axis=0), change)
    return np.concatenate(found)


def _rhythm(frames: Float[np.ndarray, "t m"]) -> np.ndarray:
    """How energies are distributed and change in time.

    For each mel band, four percentiles of the energies, and the deviation, the mean increase and a percentile of the
    changes over four frames. For each of the first 20 cosine components of the bands, the deviation and the deviation
    of these changes. For each of eight groups of bands, the log energy of 13 ranges of modulation frequencies, and the
    autocorrelation at five distances.
    """
    spread = np.percentile(frames, (5, 25, 75, 95), axis=0)
    change = _changes(frames)
    found = [*spread, change.std(0), np.maximum(change, 0).mean(0), np.percentile(np.abs(change), 95, axis=0)]
    shapes = frames @ _cosines(frames.shape[1])
    found += [shapes.std(0), _changes(shapes).std(0)]
    groups = np.stack([part.mean(1) for part in np.array_split(frames, min(_GROUPS, frames.shape[1]), axis=1)], axis=1)
    groups = groups - groups.mean(0)
    return np.concatenate([x.ravel() for x in (*found, _modulation(groups), _autocorrelation(groups))])


def _changes(values: Float[np.ndarray, "t d"]) -> Float[np.ndarray, "u d"]:
    """Differences to the values four frames before; zeros if there are none."""
    return values[4:] - values[:-4] if len(values) > 4 else np.zeros_like(values[:1])


def _cosines(m: int) -> Float[np.ndarray, "m k"]:
    """The first 20 rows of the cosine transform of type 2, as columns."""
    return np.cos(np.pi * (np.arange(m)[:, None] + 0.5) * np.arange(min(20, m)) / m)


def _modulation(groups: Float[np.ndarray, "t g"]) -> Float[np.ndarray, "r g"]:
    """The log power of ranges of modulation frequencies, the mean of windows of 512 frames."""
    powers = []
    for first in range(0, len(groups), _MODULATION):
        part = np.zeros((_MODULATION, groups.shape[1]))
        own = groups[first : first + _MODULATION]
        part[: len(own)] = own
        powers.append(np.abs(np.fft.rfft(part * np.hanning(_MODULATION)[:, None], axis=0)) ** 2)
    power = np.mean(powers, axis=0)
    return np.log(np.stack([power[a:b].mean(0) for a, b in itertools.pairwise(_RANGES)]) + 1e-3)


def _autocorrelation(groups: Float[np.ndarray, "t g"]) -> Float[np.ndarray, "l g"]:
    """The correlation with the values 5, 10, 20, 50 and 100 frames before; 0 for distances that are too long."""
    variance = groups.var(0) + 1e-6
    rows = [
        (groups[:-lag] * groups[lag:]).mean(0) / variance if len(groups) > lag else np.zeros_like(variance)
        for lag in _LAGS
    ]
    return np.stack(rows)


def _interpolate(frames: Float[np.ndarray, "t m"]) -> np.ndarray:
    at = np.linspace(0, len(frames) - 1, _POINTS)
    lower = np.floor(at).astype(int)
    upper = np.minimum(lower + 1, len(frames) - 1)
    weight = (at - lower)[:, None]
    return ((1 - weight) * frames[lower] + weight * frames[upper]).ravel()
