"""Slower series of recordings, for local conditioning: log-mel spectrograms, or vectors from files.

Vector f belongs to the samples from ``f hop`` to ``(f + 1) hop - 1``. Before a recording there are zeros (after
normalization), and after the last vector it is held, so windows of a recording have the same vectors as the whole.
Nothing is stored: a spectrogram is computed for each window. Tested in tests/tasks/lm/sound/test_series.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.mulaw import decode_mulaw
from catena.data.recordings import Recordings
from catena.encoders.log_mel import LogMel
from catena.encoders.sound import FeatureNorm
from catena.errors import DataError, FormatError
from catena.tasks.lm.sound.data import RecordingExample

_BLOCK = 2048
"""Frames that are transformed in one call."""


class LocalSeries(ABC):
    """The slower series of some recordings."""

    @abstractmethod
    def n_frames(self, i: int) -> int:
        """The number of vectors of recording ``i``."""

    @abstractmethod
    def read(self, i: int, first: int, last: int) -> Float[Tensor, "_ k"]:
        """The vectors of recording ``i`` from ``first`` to ``last - 1``, which exist."""

    def window(self, i: int, first: int, n: int, norm: FeatureNorm) -> Float[Tensor, "n k"]:
        """``n`` normalized vectors from ``first`` on, which may be negative: zeros before, the last one held after."""
        end = self.n_frames(i)
        low, high = min(max(first, 0), end - 1), min(max(first + n, 1), end)
        own = norm(self.read(i, low, high).to(norm.mean.device))
        index = torch.arange(first, first + n, device=own.device)
        return own[(index - low).clamp(0, high - low - 1)].masked_fill((index < 0)[:, None], 0.0)

    def windows(
        self, chosen: Int[np.ndarray, " b"], firsts: Int[np.ndarray, " b"], n: int, norm: FeatureNorm
    ) -> Float[Tensor, "b n k"]:
        """The vectors of several windows."""
        pairs = zip(chosen.tolist(), firsts.tolist(), strict=True)
        return torch.stack([self.window(i, first, n, norm) for i, first in pairs])


class LogMelSeries(LocalSeries):
    """Log-mel spectrograms of recordings.

    Args:
        recordings: the recordings.
        log_mel: the front end; its hop is the hop of the series. A frame is centered on the samples that it is for.
    """

    def __init__(self, recordings: Recordings, log_mel: LogMel) -> None:
        self.recordings, self.log_mel = recordings, log_mel
        self.hop, self.wide = log_mel.config.n_hop, log_mel.config.n_frame
        self._values = decode_mulaw(np.arange(recordings.n_levels), recordings.n_levels)

    def n_frames(self, i: int) -> int:
        return -(-len(self.recordings[i]) // self.hop)

    def read(self, i: int, first: int, last: int) -> Float[Tensor, "_ k"]:
        edges = [*range(first, last, _BLOCK), last]
        return torch.cat([self._transform(i, low, high) for low, high in pairwise(edges)])

    def _transform(self, i: int, first: int, last: int) -> Float[Tensor, "_ k"]:
        levels = self.recordings[i]
        start = first * self.hop - (self.wide - self.hop) // 2
        samples = np.zeros((last - first - 1) * self.hop + self.wide, np.float32)
        low, high = max(start, 0), min(start + len(samples), len(levels))
        samples[low - start : max(high, low) - start] = self._values[levels[low:high]]
        frames = torch.from_numpy(samples).to(self.log_mel.window.device).unfold(0, self.wide, self.hop)
        return self.log_mel.transform(frames[None])[0]


class StoredSeries(LocalSeries):
    """Series from .npy files of shape (frames, features).

    Args:
        examples: the recordings, whose ``series`` are the files.
        lengths: the number of samples of each.
        hop: the number of samples for each vector.
        d: the number of features; of the first file if None.
    """

    def __init__(self, examples: Sequence[RecordingExample], lengths: np.ndarray, hop: int, d: int | None) -> None:
        self.files: list[Path] = []
        self.starts = [example.start // hop for example in examples]
        self.sizes = [-(-n // hop) for n in lengths.tolist()]
        self.d = d
        for example, start, size in zip(examples, self.starts, self.sizes, strict=True):
            assert example.series is not None
            array = open_series(example.series, self.d)
            if len(array) < start + size:
                raise DataError(
                    f"{example.series} must have at least {start + size} vectors, one for each {hop} samples of "
                    f"{example.path}, got {len(array)}. Set strides so that their product is the hop of the series."
                )
            self.d = array.shape[1]
            self.files.append(example.series)

    def n_frames(self, i: int) -> int:
        return self.sizes[i]

    def read(self, i: int, first: int, last: int) -> Float[Tensor, "_ k"]:
        array = open_series(self.files[i], self.d)  # not kept open: there may be more files than may be open
        return torch.from_numpy(np.array(array[self.starts[i] + first : self.starts[i] + last], np.float32))


def open_series(series: Path, d: int | None = None) -> Float[np.ndarray, "f k"]:
    """The series in a file, mapped into memory, with ``d`` features unless it is None."""
    try:
        array = np.load(series, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"File not found: {series}, the series of a recording. Save it with numpy.save.") from None
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{series} cannot be read as an array: {error}. Save it with numpy.save.") from None
    if array.ndim != 2 or not array.size or not np.issubdtype(array.dtype, np.number):
        raise FormatError(
            f"{series} must have the shape (frames, features), got {array.dtype} of shape {array.shape}. Save numbers."
        )
    if d is not None and array.shape[1] != d:
        raise DataError(f"{series} must have {d} features, as the others, got {array.shape[1]}. Compute it again.")
    return array


def fit_norm(norm: FeatureNorm, series: LocalSeries, n_recordings: int, n_most: int = 200, frames: int = 500) -> None:
    """Mean and deviation from at most ``frames`` vectors of each of ``n_most`` recordings, evenly chosen."""
    chosen = np.unique(np.linspace(0, n_recordings - 1, min(n_most, n_recordings)).astype(int)).tolist()
    norm.fit(torch.cat([series.read(i, 0, min(frames, series.n_frames(i))) for i in chosen]).to(norm.mean.device))
