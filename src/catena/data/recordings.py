"""Quantized recordings in one file of bytes, and random windows of them for training.

Samples are mu-law levels of 8 bits (:mod:`catena.data.mulaw`), one recording after another. The file is mapped into
memory, so hours of sound need no memory, and a window costs one copy. The time before a recording is silence. Tested in
tests/data/test_recordings.py.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, UInt8

from catena.data.audio import audio_blocks
from catena.data.mulaw import N_LEVELS, encode_mulaw, silence_level
from catena.errors import CatenaError, DataError, FormatError
from catena.files import as_json, atomic_write, write_text_atomically
from catena.randomness import Randomness

SAMPLES, INDEX = "samples.u8", "recordings.json"
IN_MEMORY = 1 << 26
"""Bytes of :func:`store_recordings` that are kept in memory."""
_BLOCK = 1 << 16
"""Samples that are quantized in one call."""

NamedLevels = tuple[str, Iterable[UInt8[np.ndarray, " _"]], int]
"""The name of a recording, its levels in blocks, and its speaker."""


@dataclass(frozen=True, eq=False)
class Recordings:
    """Quantized recordings.

    Args:
        levels: the mu-law levels of all recordings; usually mapped from a file.
        edges: recording ``i`` is ``levels[edges[i]:edges[i + 1]]``.
        names: the name of each recording, such as its file.
        speakers: the speaker of each recording, an index from 0; -1 if unknown.
        sample_rate: samples in a second.
        n_levels: the number of mu-law levels.
    """

    levels: UInt8[np.ndarray, " n"]
    edges: Int[np.ndarray, " m1"]
    names: tuple[str, ...]
    speakers: Int[np.ndarray, " m"]
    sample_rate: int
    n_levels: int = N_LEVELS

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> UInt8[np.ndarray, " t"]:
        """The levels of recording ``i``, without a copy."""
        return self.levels[self.edges[i] : self.edges[i + 1]]

    @property
    def lengths(self) -> Int[np.ndarray, " m"]:
        """The number of samples of each recording."""
        return np.diff(self.edges)

    @property
    def n_samples(self) -> int:
        return int(self.edges[-1])

    @classmethod
    def from_levels(
        cls,
        levels: Sequence[UInt8[np.ndarray, " _"]],
        speakers: Sequence[int] | None = None,
        sample_rate: int = 8000,
        n_levels: int = N_LEVELS,
    ) -> Recordings:
        """Recordings in memory, named by their index."""
        names = tuple(str(i) for i in range(len(levels)))
        edges = np.cumsum([0, *map(len, levels)])
        joined = np.concatenate([*levels, np.zeros(0, np.uint8)])
        known = [-1] * len(names) if speakers is None else speakers
        return cls(joined, edges, names, np.array(known, np.int64), sample_rate, n_levels)


@dataclass(frozen=True)
class SkippedFile:
    """A sound file that could not be used, and the reason."""

    path: Path
    reason: str


def quantize_files(
    paths: Sequence[Path],
    folder: Path,
    sample_rate: int,
    speakers: Sequence[int] | None = None,
    n_levels: int = N_LEVELS,
) -> tuple[Recordings, list[SkippedFile]]:
    """Read sound files of any format, and write their levels to a folder for :func:`read_recordings`.

    A file that cannot be decoded is left out and listed; all others are kept whole, including silence. Needs one byte
    of memory for each sample of the longest file.

    Args:
        paths: sound files.
        folder: a folder for the result; an older result in it is replaced.
        sample_rate: to which all files are resampled.
        speakers: the speaker of each file, an index from 0, or -1 if unknown.
        n_levels: the number of mu-law levels.
    """
    skipped: list[SkippedFile] = []
    known = [-1] * len(paths) if speakers is None else speakers
    if len(known) != len(paths):
        raise DataError(
            f"speakers must have one entry for each of {len(paths)} files, got {len(known)}. Add or remove."
        )

    def readable() -> Iterator[NamedLevels]:
        for path, speaker in zip(paths, known, strict=True):
            try:
                blocks = quantize_file(path, sample_rate, n_levels)
            except CatenaError as error:
                skipped.append(SkippedFile(path, str(error)))
            else:
                yield str(path), blocks, speaker

    recordings = write_recordings(folder, readable(), sample_rate, n_levels)
    return recordings, skipped


def quantize_file(path: Path, sample_rate: int, n_levels: int = N_LEVELS) -> list[UInt8[np.ndarray, " _"]]:
    """The levels of a sound file, in blocks; the samples themselves are never all in memory."""
    return [encode_mulaw(block, n_levels) for block in audio_blocks(path, sample_rate, _BLOCK)]


def store_recordings(recordings: Iterable[NamedLevels], sample_rate: int, n_levels: int = N_LEVELS) -> Recordings:
    """Recordings for this process only: in memory while they are small, and then in a temporary file.

    Arguments as in :func:`write_recordings`.
    """
    with tempfile.SpooledTemporaryFile(IN_MEMORY, prefix="catena-recordings-") as file:
        listed = _write_levels(file, recordings)
        edges = np.cumsum([0, *listed["lengths"]])
        levels = _map_spooled(file, int(edges[-1]))
    speakers = np.array(listed["speakers"], np.int64)
    return Recordings(levels, edges, tuple(listed["names"]), speakers, sample_rate, n_levels)


def _write_levels(file: Any, recordings: Iterable[NamedLevels]) -> dict[str, list[Any]]:
    """Write the levels of all recordings, and return their names, speakers and lengths."""
    listed: dict[str, list[Any]] = {"names": [], "speakers": [], "lengths": []}
    for name, blocks, speaker in recordings:
        listed["names"].append(name)
        listed["speakers"].append(speaker)
        listed["lengths"].append(sum(file.write(np.asarray(block, np.uint8).tobytes()) for block in blocks))
    return listed


def _map_spooled(file: Any, n: int) -> UInt8[np.ndarray, " n"]:
    """The bytes of a spooled file: its memory, or a map of the file, which stays valid after the file is closed."""
    if n <= IN_MEMORY:
        file.seek(0)
        return np.frombuffer(file.read(), np.uint8)
    file.flush()
    return np.memmap(file, np.uint8, "r")


def write_recordings(
    folder: Path, recordings: Iterable[NamedLevels], sample_rate: int, n_levels: int = N_LEVELS
) -> Recordings:
    """Write quantized recordings to a folder, and map them.

    Args:
        folder: a folder for the result; an older result in it is replaced.
        recordings: the name, the blocks of levels and the speaker of each.
        sample_rate: samples in a second.
        n_levels: the number of mu-law levels.
    """
    with atomic_write(folder / SAMPLES) as unfinished, unfinished.open("xb") as file:
        listed = _write_levels(file, recordings)
    write_text_atomically(folder / INDEX, as_json({"sample_rate": sample_rate, "n_levels": n_levels, **listed}))
    return read_recordings(folder)


def read_recordings(folder: Path) -> Recordings:
    """Map the recordings that :func:`write_recordings` wrote."""
    index = _read_index(folder / INDEX)
    edges = np.cumsum([0, *index["lengths"]])
    path = folder / SAMPLES
    size = path.stat().st_size if path.exists() else -1
    if size != edges[-1]:
        raise FormatError(f"{path} must have {edges[-1]} bytes, got {max(size, 0)}. Quantize the sound files again.")
    levels = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
    speakers = np.array(index["speakers"], np.int64)
    return Recordings(levels, edges, tuple(index["names"]), speakers, index["sample_rate"], index["n_levels"])


def _read_index(path: Path) -> dict[str, Any]:
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        sizes = {len(index[key]) for key in ("names", "speakers", "lengths")}
        index["sample_rate"] = int(index["sample_rate"])
        index["n_levels"] = int(index["n_levels"])
    except FileNotFoundError:
        raise FormatError(f"File not found: {path}. Quantize the sound files first.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{path} is damaged ({error}). Quantize the sound files again.") from None
    if len(sizes) != 1:
        raise FormatError(f"{path} is damaged: its lists have different lengths. Quantize the sound files again.")
    return index


# --- windows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """Windows of recordings: inputs, and the samples to predict from them.

    Args:
        inputs: ``inputs[i, j]`` is the sample before target ``j - field + 1``; silence before the recording.
        targets: the samples to predict from the last ``t`` positions of the inputs.
        mask: True at real targets; a recording may be shorter than a window.
        recordings: the recording of each window.
        starts: the position of the first target in its recording.
    """

    inputs: UInt8[np.ndarray, "b s"]
    targets: UInt8[np.ndarray, "b t"]
    mask: Bool[np.ndarray, "b t"]
    recordings: Int[np.ndarray, " b"]
    starts: Int[np.ndarray, " b"]


class WindowPlan:
    """The random windows of one epoch. They depend only on the seed and the number of the epoch.

    Recordings are chosen in proportion to their length, and an epoch has as many targets as there are samples. The
    first and the last samples of a recording are at least half as frequent as the others.

    Args:
        recordings: the training data, not empty.
        field: the receptive field of the model: inputs before the first target, so that each target has its full
            context.
        n_targets: the number of targets of a window.
        batch_size: the number of windows of a batch.
        hop: windows start at multiples of it, so that all have the same position relative to the vectors of a slower
            series.
        seed: of the run.
        epoch: the number of the epoch.
    """

    def __init__(
        self,
        recordings: Recordings,
        *,
        field: int,
        n_targets: int,
        batch_size: int,
        hop: int = 1,
        seed: int = 0,
        epoch: int = 1,
    ) -> None:
        if not recordings.n_samples:
            raise DataError("recordings must have at least one sample, got none. Check the sound files.")
        for name, value in (("field", field), ("n_targets", n_targets), ("batch_size", batch_size), ("hop", hop)):
            if value < 1:
                raise DataError(f"{name} must be at least 1, got {value}. Use 1 or more.")
        self.recordings, self.field, self.n_targets, self.batch_size = recordings, field, n_targets, batch_size
        generator = Randomness(seed).numpy("windows", epoch)
        n = -(-recordings.n_samples // (n_targets * batch_size)) * batch_size
        middles = np.sort(generator.integers(recordings.n_samples, size=n))
        chosen = np.searchsorted(recordings.edges, middles, side="right") - 1
        latest = np.maximum(recordings.lengths[chosen] - n_targets, 0)
        starts = np.clip(middles - recordings.edges[chosen] - n_targets // 2, 0, latest)
        order = generator.permutation(n)
        self.chosen, self.starts = chosen[order], (starts - starts % hop)[order]
        """The recording of each window, and the position of its first target there."""

    def __len__(self) -> int:
        return len(self.chosen) // self.batch_size

    def batch(self, i: int) -> WindowBatch:
        """Batch ``i``, independent of the others."""
        rows = slice(i * self.batch_size, (i + 1) * self.batch_size)
        return cut_windows(self.recordings, self.chosen[rows], self.starts[rows], self.field, self.n_targets)


def cut_windows(
    recordings: Recordings, chosen: Int[np.ndarray, " b"], starts: Int[np.ndarray, " b"], field: int, n_targets: int
) -> WindowBatch:
    """The windows of the chosen recordings whose first targets are at ``starts``."""
    silence = silence_level(recordings.n_levels)
    samples = np.full((len(chosen), field + n_targets), silence, np.uint8)
    mask = np.zeros((len(chosen), n_targets), bool)
    for row, (i, start) in enumerate(zip(chosen.tolist(), starts.tolist(), strict=True)):
        recording = recordings[i]
        first, last = max(start - field, 0), min(start + n_targets, len(recording))
        samples[row, first - start + field : last - start + field] = recording[first:last]
        mask[row, : last - start] = True
    return WindowBatch(samples[:, :-1], samples[:, field:], mask, chosen, starts)


def evaluation_windows(recordings: Recordings, field: int, n_targets: int, batch_size: int) -> Iterator[WindowBatch]:
    """Batches of windows in which every sample is a target exactly once, for evaluation.

    Windows of similar length are together, and none is longer than its batch needs.
    """
    pairs = [(i, start) for i, n in enumerate(recordings.lengths) for start in range(0, n, n_targets)]
    pairs.sort(key=lambda pair: pair[1] - recordings.lengths[pair[0]])
    for first in range(0, len(pairs), batch_size):
        chosen, starts = (np.array(x) for x in zip(*pairs[first : first + batch_size], strict=True))
        longest = min(n_targets, int(recordings.lengths[chosen[0]] - starts[0]))
        yield cut_windows(recordings, chosen, starts, field, longest)
