"""Features for the models of scikit-learn: TF-IDF of tokens, components of pixels, statistics of log-mel energies.

Every function returns a transformer of scikit-learn, which is fitted on training inputs only, or the inputs of one.
Tested in tests/tasks/baselines/test_features.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def sound_statistics(sounds: Sequence[np.ndarray], config: SoundConfig) -> Float[np.ndarray, "n d"]:
    """Statistics of the log-mel energies of sounds, and the energies of 20 interpolated frames.

    The first six values of each mel band are the mean, deviation, minimum, maximum and median over the frames, and the
    mean absolute difference of neighboring frames.
    """
    mel = LogMel(config.model_copy(update={"features": "log_mel"}))
    rows = []
    for samples in sounds:
        with torch.no_grad():
            frames = mel(torch.from_numpy(np.asarray(samples, np.float32))[None])[0][0].numpy()
        rows.append(np.concatenate((_statistics(frames), _interpolate(frames))))
    return np.stack(rows)


def count_statistics(config: SoundConfig) -> int:
    """The number of statistics at the beginning of a row of :func:`sound_statistics`."""
    return 6 * config.n_mels


def _statistics(frames: Float[np.ndarray, "t m"]) -> np.ndarray:
    change = np.abs(np.diff(frames, axis=0)).mean(0) if len(frames) > 1 else np.zeros_like(frames[0])
    found = (frames.mean(0), frames.std(0), frames.min(0), frames.max(0), np.median(frames, axis=0), change)
    return np.concatenate(found)


def _interpolate(frames: Float[np.ndarray, "t m"]) -> np.ndarray:
    at = np.linspace(0, len(frames) - 1, _POINTS)
    lower = np.floor(at).astype(int)
    upper = np.minimum(lower + 1, len(frames) - 1)
    weight = (at - lower)[:, None]
    return ((1 - weight) * frames[lower] + weight * frames[upper]).ravel()
