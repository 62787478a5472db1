"""The network of a model of recordings with its batches, and slower series as local conditions.

Slower series of recordings, for local conditioning: log-mel spectrograms, or vectors from files.

Vector f belongs to the samples from ``f hop`` to ``(f + 1) hop - 1``. Before a recording there are zeros (after
normalization), and after the last vector it is held, so windows of a recording have the same vectors as the whole.
Nothing is stored: a spectrogram is computed for each window. Tested in tests/tasks/lm/sound/test_series.py.

The predictions of adaptive linear predictors are stored, since each depends on the whole recording before it. Tested in
tests/tasks/lm/sound/test_prediction.py.
"""

from __future__ import annotations

import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor, nn

from catena.checkpoint import read_stored
from catena.data.media import map_in_threads
from catena.data.mulaw import decode_mulaw
from catena.data.recordings import IN_MEMORY, Recordings, WindowBatch, WindowPlan
from catena.data.vocabulary import Labels
from catena.encoders.dilated import Condition
from catena.encoders.log_mel import LogMel
from catena.encoders.sound import FeatureNorm
from catena.errors import DataError, FormatError
from catena.files import as_json
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_build import build_wavenet
from catena.lm.wavenet_prediction import FLIPPED, PARTS, LinearPredictors
from catena.registry import did_you_mean
from catena.tasks.lm.sound.config import WaveNetLMConfig
from catena.tasks.lm.sound.data import RecordingExample, RecordingRows
from catena.training.task import EpochPlan

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


# --- linear prediction ------------------------------------------------------------------------------------------------


class StoredPredictions:
    """The predictions of each sample of recordings from the samples before it in the same recording.

    They need 16 bytes for each sample and predictor, in a temporary file that is mapped into memory if they are large.
    Recordings are read by several threads.

    Args:
        predictors: the predictors.
        recordings: the recordings.
    """

    def __init__(self, predictors: LinearPredictors, recordings: Recordings) -> None:
        self.orders, self.edges = predictors.orders, recordings.edges
        shape = (recordings.n_samples, len(predictors.orders), PARTS)
        self.values = _empty(shape)

        def read(i: int) -> None:
            self.values[self.edges[i] : self.edges[i + 1]] = predictors.predict(recordings[i])

        for _ in map_in_threads(read, range(len(recordings))):
            pass

    def windows(
        self, chosen: Int[np.ndarray, " b"], starts: Int[np.ndarray, " b"], field: int, n: int
    ) -> Float32[np.ndarray, "b n p 4"]:
        """The predictions of the sample after each of ``n`` inputs of windows.

        Those before a recording are the ones of its first sample, those after its end the ones of its last.
        """
        low, high = self.edges[chosen, None], self.edges[chosen + 1, None] - 1
        positions = low + starts[:, None] + np.arange(1 - field, n + 1 - field)
        return np.asarray(self.values[positions.clip(low, high)])


def _empty(shape: tuple[int, ...]) -> Float32[np.ndarray, "..."]:
    """An array in memory, or in a temporary file if it is large."""
    size = 4 * math.prod(shape)
    if size <= IN_MEMORY:
        return np.empty(shape, np.float32)
    with tempfile.TemporaryFile(prefix="catena-predictions-") as file:
        file.truncate(size)
        return np.memmap(file, np.float32, "r+", shape=shape)  # stays valid after the file is closed


# --- the network ------------------------------------------------------------------------------------------------------


_FILE = "recordings.json"


@dataclass(frozen=True, eq=False)
class RecordingEncoding:
    """What the training recordings determine: the names of the speakers, and the number of features of a series."""

    speakers: Labels
    d_local: int = 0

    def speaker_ids(self, names: Iterable[str | None]) -> Int[np.ndarray, " n"]:
        """The index of each speaker; -1 for an unknown one."""
        return np.array([self.speakers.id(n) if n is not None and n in self.speakers else -1 for n in names], np.int64)

    def find_speaker(self, name: str | None) -> int:
        """The index of a speaker; -1 for None. Raise DataError for an unknown name."""
        if name is None:
            return -1
        if not len(self.speakers):
            raise DataError(f"speaker = {name!r} cannot be used: the model has no speakers. Train with --speakers.")
        if name not in self.speakers:
            raise DataError(f"Unknown speaker {name!r}: {did_you_mean(name, self.speakers.names)}")
        return self.speakers.id(name)

    def save(self, folder: Path) -> None:
        values = {"speakers": list(self.speakers.names), "d_local": self.d_local}
        (folder / _FILE).write_text(as_json(values), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RecordingEncoding:
        """The encoding that :meth:`save` wrote."""
        values = read_stored(folder / _FILE, {"speakers": list[str], "d_local": int})
        return cls(Labels(values["speakers"]), values["d_local"])


@dataclass(frozen=True, eq=False)
class RecordingBatch:
    """Windows on the device of the network; see :class:`catena.data.recordings.WindowBatch`.

    Args:
        inputs: levels before the targets.
        targets: levels to predict.
        mask: True at real targets; None if all are.
        speakers: the index of each window's speaker; None if the model has none.
        frames: normalized vectors of the slower series; None if there is none.
        predictions: by linear predictors, of the sample after each input; None if there are none.
    """

    inputs: Int[Tensor, "b s"]
    targets: Int[Tensor, "b t"]
    mask: Bool[Tensor, "b t"] | None = None
    speakers: Int[Tensor, " b"] | None = None
    frames: Float[Tensor, "b f k"] | None = None
    predictions: Float[Tensor, "b s p 4"] | None = None

    @property
    def n_targets(self) -> int:
        """The number of real targets."""
        return self.targets.numel() if self.mask is None else int(self.mask.sum())


class RecordingNetwork(nn.Module):
    """A WaveNet with the front end of its local condition.

    Args:
        config: the sizes and the conditions.
        encoding: the speakers and the size of a series.
    """

    def __init__(self, config: WaveNetLMConfig, encoding: RecordingEncoding) -> None:
        super().__init__()
        self.config = config
        self.wavenet: WaveNet = build_wavenet(config, n_speakers=len(encoding.speakers), d_local=encoding.d_local)
        self.norm = FeatureNorm(encoding.d_local) if encoding.d_local else None
        self.log_mel = LogMel(config.log_mel) if config.local == "log_mel" else None

    @property
    def hop(self) -> int:
        """Windows start at multiples of it."""
        return 1 if self.norm is None else self.config.hop

    def open_series(self, rows: RecordingRows) -> LocalSeries | None:
        """The slower series of recordings; None if the model has none."""
        if self.norm is None:
            return None
        if self.log_mel is not None:
            return LogMelSeries(rows.recordings, self.log_mel)
        return StoredSeries(rows.examples, rows.lengths, self.hop, len(self.norm.mean))

    def open_predictions(self, rows: RecordingRows) -> StoredPredictions | None:
        """The predictions of recordings; None if the model has no linear predictors. Those of the rows if they fit."""
        predictors, own = self.wavenet.predictors, rows.predictions
        if predictors is None:
            return None
        if isinstance(own, StoredPredictions) and own.orders == predictors.orders:
            return own
        return StoredPredictions(predictors, rows.recordings)

    def load_batch(
        self,
        batch: WindowBatch,
        speakers: Int[np.ndarray, " b"],
        series: LocalSeries | None,
        predictions: StoredPredictions | None = None,
        flipped: Bool[np.ndarray, " b"] | None = None,
    ) -> RecordingBatch:
        """Windows with their conditions, on the device of the network.

        Args:
            batch: the windows.
            speakers: the index of each window's speaker.
            series: the slower series of the recordings.
            predictions: of the recordings.
            flipped: the windows whose sign was changed.
        """
        device = self.wavenet.device
        inputs, targets = (torch.from_numpy(x).to(device).long() for x in (batch.inputs, batch.targets))
        mask = None if batch.mask.all() else torch.from_numpy(batch.mask).to(device)
        chosen = torch.from_numpy(speakers).to(device) if self.wavenet.n_speakers else None
        predicted = None
        if predictions is not None:
            values = predictions.windows(batch.recordings, batch.starts, self.wavenet.field, inputs.shape[1])
            if flipped is not None:
                values = np.where(flipped[:, None, None, None], values * np.array(FLIPPED, np.float32), values)
            predicted = torch.from_numpy(values).to(device)
        return RecordingBatch(inputs, targets, mask, chosen, self._frames(batch, series), predicted)

    def _frames(self, batch: WindowBatch, series: LocalSeries | None) -> Float[Tensor, "b f k"] | None:
        if series is None or self.norm is None or self.wavenet.upsampling is None:
            return None
        before, after = self.wavenet.n_context_frames, self.wavenet.upsampling.margin
        n = before + after - (-batch.targets.shape[1] // self.hop)
        return series.windows(batch.recordings, batch.starts // self.hop - before, n, self.norm)

    def frames_from_start(self, series: LocalSeries) -> Float[Tensor, "1 f k"]:
        """The vectors of a single recording from its first sample on, for :meth:`WaveNet.begin`."""
        assert self.norm is not None
        assert self.wavenet.upsampling is not None
        return series.window(0, 0, series.n_frames(0) + self.wavenet.upsampling.margin, self.norm)[None]

    def loss(self, batch: RecordingBatch) -> Float[Tensor, ""]:
        """The mean of -log p over the real targets, in nats."""
        condition = self._condition(batch)
        return self.wavenet.loss(batch.inputs, batch.targets, batch.mask, condition)

    @torch.no_grad()
    def log_probs(self, batch: RecordingBatch) -> Float[Tensor, "b t"]:
        """log p of each target."""
        hidden = self.wavenet.hidden(batch.inputs, self._condition(batch))
        found = self.wavenet.output.log_prob(hidden.flatten(0, 1), batch.targets.flatten())
        return found.view(batch.targets.shape)

    def _condition(self, batch: RecordingBatch) -> Condition:
        return self.wavenet.condition(batch.speakers, batch.frames, batch.predictions)


class RecordingEpoch(EpochPlan):
    """The random windows of one epoch; some are without their speaker, and some have the opposite sign.

    Args:
        network: the network.
        plan: the windows.
        speakers: the index of each recording's speaker.
        series: the slower series.
        generator: decides which windows are changed; it depends only on the seed and the epoch.
        predictions: of the recordings; None if the model has no linear predictors.
    """

    def __init__(
        self,
        network: RecordingNetwork,
        plan: WindowPlan,
        speakers: Int[np.ndarray, " n"],
        series: LocalSeries | None,
        generator: np.random.Generator,
        predictions: StoredPredictions | None = None,
    ) -> None:
        self.network, self.plan, self.speakers, self.series = network, plan, speakers, series
        self.predictions = predictions
        dropped, flipped = generator.random((2, len(plan.chosen)))
        self.dropped = dropped < network.config.drop_speaker
        self.flipped = flipped < network.config.flip

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, i: int) -> RecordingBatch:
        batch = self.plan.batch(i)
        rows = slice(i * self.plan.batch_size, (i + 1) * self.plan.batch_size)
        speakers = np.where(self.dropped[rows], -1, self.speakers[batch.recordings])
        last = self.network.config.n_levels - 1
        over = self.flipped[rows]
        inputs, targets = (np.where(over[:, None], last - x, x) for x in (batch.inputs, batch.targets))
        flipped = WindowBatch(inputs, targets, batch.mask, batch.recordings, batch.starts)
        return self.network.load_batch(flipped, speakers, self.series, self.predictions, over)
