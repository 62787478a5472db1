"""Recordings for a language model: which files are meant, their speakers and series, and the split. Imports no torch.

Files are listed first and decoded later, by several threads, to one byte for each sample. One that cannot be decoded is
counted and listed with its reason. Tested in tests/tasks/lm/sound/test_data.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.media import list_files, map_in_threads
from catena.data.media_files import SPLIT_NAMES, common_kind, media_kind
from catena.data.reading import NOT_DECODED, ReadCounter
from catena.data.recordings import Recordings, quantize_file, store_recordings
from catena.data.records import open_records
from catena.data.roles import FILE, TEXT_COLUMNS, Role, find_column
from catena.data.tables import TABLE_FORMATS
from catena.errors import CatenaError, DataError, FormatError
from catena.extras import require
from catena.tasks.config import model_section
from catena.tasks.lm.config import LmConfig, LmDataConfig
from catena.tasks.lm.sound.config import WaveNetLMConfig
from catena.tasks.sources import Sources

PARTS = ("train", "dev", "test")
_SPEAKER = Role("speaker", ("speaker", "voice", "speaker_id", "singer"), required=False)
_SERIES = Role("series", ("series",), required=False)
_FEW = 20
"""Number of file names that are read to choose a model."""
_LONGEST_HEADER = 1 << 12
"""Bytes of the first line of a table that are searched for a column of file names."""
_MAGIC = (b"fLaC", b"OggS", b"FORM", b".snd", b"ID3")
"""First bytes of sound files other than WAV."""


@dataclass(frozen=True, eq=False)
class RecordingExample:
    """A recording.

    Args:
        path: its file.
        speaker: the name of its speaker; None if unknown.
        series: the file of its slower series; None if there is none.
        start: the position in the file of its first sample.
        levels: its mu-law levels; None if it is not decoded yet.
    """

    path: Path
    location: SourceLocation
    speaker: str | None = None
    series: Path | None = None
    start: int = 0
    levels: UInt8[np.ndarray, " t"] | None = None


@dataclass(frozen=True, eq=False)
class RecordingRows:
    """Decoded recordings, and what is known about each.

    Args:
        recordings: their levels.
        examples: their files, speakers and series.
        predictions: of linear predictors (:class:`catena.tasks.lm.sound.model.StoredPredictions`); None for none.
    """

    recordings: Recordings
    examples: list[RecordingExample]
    predictions: Any = None

    @property
    def lengths(self) -> np.ndarray:
        """The number of samples of each recording."""
        return self.recordings.lengths

    def __len__(self) -> int:
        return len(self.examples)


def get_model(config: LmConfig) -> WaveNetLMConfig:
    """The model section of a config of recordings."""
    return model_section(config, WaveNetLMConfig)


# --- the model --------------------------------------------------------------------------------------------------------


def choose_kind(paths: Sequence[Path], file_column: str | None = None) -> str | None:
    """``wavenet`` if the training files are recordings, or None.

    A table that has texts is for a model of texts, unless ``file_column`` is set.
    """
    path = paths[0]
    try:
        if path.is_dir():
            names = (file for file in list_files(path) if file.suffix != ".npy")
            are_sounds = common_kind(islice(names, _FEW)) == "sound"
        else:
            are_sounds = path.is_file() and (is_sound_file(path) or _lists_sounds(path, file_column))
    except (CatenaError, OSError):
        return None  # reported when the file is read
    return "wavenet" if are_sounds else None


def is_sound_file(path: Path) -> bool:
    """Whether a file is a sound, by the ending of its name or, if it is unknown, by its first bytes."""
    if (kind := media_kind(path)) is not None:
        return kind == "sound"
    with path.open("rb") as file:
        head = file.read(12)
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:] == b"WAVE")


def _lists_sounds(path: Path, file_column: str | None) -> bool:
    """Whether a file is a table with a column of sound files."""
    column = file_column or _find_file_column(path)
    if column is None and detect_format(path).format not in TABLE_FORMATS:
        return False
    table = open_records(path, (FILE,), columns={"file": column} if column else None)
    if file_column is None and find_column(table.table.names, TEXT_COLUMNS) is not None:
        return False
    return common_kind(record["file"] or "" for record in islice(table.read(), _FEW)) == "sound"


def _find_file_column(path: Path) -> str | None:
    """The column of file names in the first line of a table, which may be too small to show that it has a header."""
    with path.open("rb") as file:
        names = re.split(r"[\t,;]", file.readline(_LONGEST_HEADER).decode("utf-8", "replace").strip())
    return find_column([name.strip('"') for name in names], FILE.columns, exact=True) if len(names) > 1 else None


# --- listing ----------------------------------------------------------------------------------------------------------


def list_recordings(config: LmConfig, path: Path, counter: ReadCounter) -> Iterator[RecordingExample]:
    """The recordings of a folder, of a table with a column of file names, or one file itself; not decoded.

    Args:
        config: the config of the run.
        path: a folder, a table or a sound file. The subfolder of a recording is its speaker.
        counter: counts what is read and dropped.
    """
    data, has_series = config.data, get_model(config).local == "series"
    if path.is_dir():
        found = _list_folder(path, counter, has_series)
    elif path.is_file() and is_sound_file(path):
        found = counter.seen([RecordingExample(path, SourceLocation(str(path), 1))])
    else:
        found = _list_table(data, path, counter)
    for example in found:
        series = example.path.with_suffix(".npy") if has_series and example.series is None else example.series
        yield replace(example, speaker=example.speaker or data.speaker, series=series)


def _list_folder(folder: Path, counter: ReadCounter, has_series: bool) -> Iterator[RecordingExample]:
    parts = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name.lower() in SPLIT_NAMES)
    if len(parts) > 1:
        raise FormatError(
            f"{folder} must be one part of the data, got the folders {', '.join(parts)}. Pass "
            f"{folder / parts[-1]}, and the others as --dev and --test."
        )
    for path in list_files(folder):
        if has_series and path.suffix == ".npy":
            continue
        counter.saw()
        location, inside = SourceLocation(str(path), 1), path.relative_to(folder).parts
        if is_sound_file(path):
            yield RecordingExample(path, location, inside[0] if len(inside) > 1 else None)
        else:
            counter.drop("not a sound by name", location, str(path))


def _list_table(data: LmDataConfig, path: Path, counter: ReadCounter) -> Iterator[RecordingExample]:
    file = data.file_column or (_find_file_column(path) if path.is_file() else None)
    named = {"file": file, "speaker": data.speaker_column, "series": data.series_column}
    table = open_records(
        path,
        (FILE, _SPEAKER, _SERIES),
        format=None if data.input_format == "auto" else data.input_format,
        columns={role: column for role, column in named.items() if column is not None},
        encoding=data.encoding,
    )
    for record in table.read(counter):
        speaker, series = (record.values.get(name) or None for name in ("speaker", "series"))
        own = path.parent / series if series else None
        yield RecordingExample(path.parent / record["file"], record.location, speaker, own)


# --- decoding ---------------------------------------------------------------------------------------------------------


def decode_recordings(
    model: WaveNetLMConfig, examples: Sequence[RecordingExample], counter: ReadCounter
) -> RecordingRows:
    """Decode recordings; those that cannot be decoded are dropped.

    Needs one byte of memory for each sample of a few files; the result goes to a temporary file if it is large.
    """
    if any(example.levels is None for example in examples):
        require("soundfile", "audio", "reading sounds")
    kept: list[RecordingExample] = []

    def decode(example: RecordingExample) -> list[UInt8[np.ndarray, " _"]] | str:
        if example.levels is not None:
            return [example.levels]
        try:
            return quantize_file(example.path, model.sample_rate, model.n_levels)
        except CatenaError as error:
            return str(error)

    def readable() -> Iterator[tuple[str, list[UInt8[np.ndarray, " _"]], int]]:
        for example, found in zip(examples, map_in_threads(decode, examples), strict=True):
            if isinstance(found, str):
                counter.drop(NOT_DECODED, example.location, found)
            elif not sum(map(len, found)):
                counter.drop("without samples", example.location, str(example.path))
            else:
                kept.append(example)
                yield str(example.path), found, -1

    return RecordingRows(store_recordings(readable(), model.sample_rate, model.n_levels), kept)


def read_recording_files(config: LmConfig, path: Path, counter: ReadCounter) -> Iterator[RecordingExample]:
    """The decoded recordings of a folder, a table or a sound file."""
    rows = decode_recordings(get_model(config), list(list_recordings(config, path, counter)), counter)
    for i, example in enumerate(rows.examples):
        yield replace(example, levels=rows.recordings[i])


# --- train, dev and test ----------------------------------------------------------------------------------------------


def read_parts(config: LmConfig, sources: Sources[RecordingExample]) -> tuple[dict[str, RecordingRows], str]:
    """The decoded recordings of train, dev and test, and how many were read. What has no file is split off train."""
    listed = {part: list(_list_part(config, sources, part)) for part in PARTS}
    splits = config.data.splits(has_dev="dev" in sources, has_test="test" in sources, seed=config.seed)
    held = {"dev": splits.dev_fraction, "test": splits.test_fraction}
    by_recording = config.data.split == "random" and len(listed["train"]) > 1
    if by_recording and any(held.values()):
        rows = replace(splits, by="hash").rows([_split_key(example) for example in listed["train"]])
        train = listed["train"]
        listed["train"] = [train[i] for i in rows.train]
        for part, index in (("dev", rows.dev), ("test", rows.test)):
            listed[part] = [train[i] for i in index] or listed[part]
        sources.n_shared = len(np.intersect1d(rows.train, rows.dev))
    parts = {part: decode_recordings(get_model(config), some, sources.counter) for part, some in listed.items()}
    counts = sources.counter.counts(sum(map(len, parts.values())) - sources.n_shared).sentence()
    if not by_recording and any(held.values()):
        parts |= cut_ends(parts["train"], held, get_model(config).hop)
    for part in ("train", "dev"):
        _check(part, parts[part], sources)
    return parts, counts


def _list_part(config: LmConfig, sources: Sources[RecordingExample], part: str) -> Iterable[RecordingExample]:
    if part in sources.given:
        return sources.read(part)
    if part == "train" and not sources.paths(part):
        raise DataError("There is nothing to train on. Name a folder, as in 'catena train lm FOLDER'.")
    return [one for path in sources.paths(part) for one in list_recordings(config, path, sources.counter)]


def _split_key(example: RecordingExample) -> str:
    """Folder and name, so that the data may be moved."""
    return "/".join(example.path.parts[-2:])


def cut_ends(rows: RecordingRows, fractions: Mapping[str, float], hop: int) -> dict[str, RecordingRows]:
    """Train, and the parts that are the end of each recording, the last one at the very end.

    Pieces start at multiples of ``hop``, so that a slower series fits. A part with the fraction 0 is left out.
    """
    names = ("train", *(part for part, fraction in fractions.items() if fraction))
    before = 1 - np.cumsum([fractions[part] for part in names[:0:-1]])[::-1]
    edges = np.outer(rows.lengths, before).astype(np.int64)  # recording, part
    edges = np.column_stack((np.zeros(len(rows), np.int64), edges - edges % hop, rows.lengths))
    return {part: _cut(rows, edges[:, i], edges[:, i + 1]) for i, part in enumerate(names)}


def _cut(rows: RecordingRows, starts: np.ndarray, ends: np.ndarray) -> RecordingRows:
    """The part of each recording from a start to an end; empty ones are left out."""
    chosen = [(i, int(low), int(high)) for i, (low, high) in enumerate(zip(starts, ends, strict=True)) if low < high]
    examples = [replace(rows.examples[i], start=low) for i, low, _ in chosen]
    pieces = ((str(rows.examples[i].path), [rows.recordings[i][low:high]], -1) for i, low, high in chosen)
    return RecordingRows(store_recordings(pieces, rows.recordings.sample_rate, rows.recordings.n_levels), examples)


def _check(part: str, rows: RecordingRows, sources: Sources[RecordingExample]) -> None:
    """Raise DataError if a part has no recording."""
    dropped = sources.counter.dropped
    if not len(rows) and dropped:
        raise DataError(f"{part} has no recording that can be decoded. The first error: {dropped[0].text}")
    if not rows.recordings.n_samples:
        raise DataError(f"{part} has no samples. Pass longer recordings, or a {part} folder.")
