"""Labeled files of pictures and sounds: which model reads them, reading, and storage. Imports no torch.

A file is listed first and decoded later, by several threads. One that cannot be decoded is counted and listed with its
reason. Tested in tests/tasks/classify/media/test_data.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.media import LabeledFile, list_files, list_labeled_files
from catena.data.media_files import MediaKind, common_kind, label_media_folders, media_kind, split_folders
from catena.data.reading import ReadCounter
from catena.data.records import open_records
from catena.data.roles import FILE, LABEL
from catena.errors import CatenaError, DataError, FormatError
from catena.tasks.classify.config import ClassifyConfig, ClassifyDataConfig
from catena.tasks.classify.data import describe_labels
from catena.tasks.sources import Sources

_FOLDERS = ("pictures", "sounds")
"""Formats that are folders."""
_FEW = 20
"""Number of file names of a table that are read to choose a model."""


@dataclass(frozen=True, eq=False)
class MediaExample:
    """A decoded file with its labels: pixels (height, width, 3), or the samples of one channel."""

    path: Path
    labels: tuple[str, ...]
    location: SourceLocation
    content: np.ndarray


@dataclass(frozen=True, eq=False)
class MediaRows:
    """Decoded files with their gold labels.

    Args:
        contents: the pixels or samples of all files of the dataset, by index.
        rows: the indices of these files.
        lengths: the number of samples of these files; 1 for a picture.
        gold: their gold labels.
        shown: the names of a few of them, by position.
    """

    contents: Any
    rows: np.ndarray
    lengths: np.ndarray
    gold: list[tuple[str, ...]]
    shown: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)


# --- the model --------------------------------------------------------------------------------------------------------


def choose_kind(paths: Sequence[Path], file_column: str | None = None) -> MediaKind | None:
    """The kind of model for training files: ``picture`` or ``sound``, or None if they are something else."""
    path = paths[0]
    if path.is_dir():
        found = label_media_folders(path)
        return None if found is None else found[0]
    if not path.is_file():
        return None
    try:
        if file_column is None and "file" not in detect_format(path).columns:
            return None
        records = open_records(path, (FILE,), columns={"file": file_column} if file_column else None).read()
        return common_kind(record["file"] or "" for record, _ in zip(records, range(_FEW), strict=False))
    except CatenaError:
        return None  # reported when the file is read


# --- reading ----------------------------------------------------------------------------------------------------------


def list_examples(
    data: ClassifyDataConfig, path: Path, counter: ReadCounter, *, gold: bool = True
) -> Iterator[LabeledFile]:
    """The files of a folder, of a table with a column of file names, or one file itself.

    Args:
        data: the config of the data.
        path: a folder with one subfolder for each label, a table, or with ``gold=False`` also any folder or a file.
        counter: counts what is read and dropped.
        gold: whether labels are read.
    """
    if path.is_dir():
        if gold:
            check_folder(path)
        files = list_labeled_files(path) if gold else [_unlabeled(file) for file in list_files(path)]
        examples = counter.seen(files)
    elif media_kind(path) is not None:
        if gold:
            raise DataError(f"{path} is one file without a label. Pass a folder with one subfolder for each label.")
        examples = counter.seen([_unlabeled(path)])
    else:
        examples = _list_table(data, path, counter, gold)
    return _relabel(examples, data.relabel, counter) if data.relabel and gold else examples


def check_folder(path: Path) -> None:
    """Raise FormatError if the subfolders of a folder are parts of the data rather than labels."""
    if parts := split_folders(path):
        raise FormatError(
            f"{path} must have one subfolder for each label, got {', '.join(part.name for part in parts)}, which have "
            f"folders of labels. Pass {parts[-1]}, and the others as --dev and --test."
        )


def _unlabeled(path: Path) -> LabeledFile:
    return LabeledFile(path, (), SourceLocation(str(path), 1))


def _list_table(data: ClassifyDataConfig, path: Path, counter: ReadCounter, gold: bool) -> Iterator[LabeledFile]:
    label = replace(LABEL, separator=data.label_separator, required=not data.multilabel)
    named = {"file": data.file_column, "label": data.label_column if gold else None}
    file = open_records(
        path,
        (FILE, label) if gold else (FILE,),
        format=None if data.input_format in ("auto", *_FOLDERS) else data.input_format,
        columns={role: column for role, column in named.items() if column is not None},
        encoding=data.encoding,
    )
    for record in file.read(counter):
        labels = (record["label"] or ()) if gold else ()
        if len(labels) > 1 and not data.multilabel:
            raise DataError(
                f"{record.location} must have one label, got {len(labels)} ({', '.join(labels)}). Use --multilabel if "
                f"files may have several."
            )
        yield LabeledFile(path.parent / record["file"], labels, record.location)


def _relabel(examples: Iterator[LabeledFile], pairs: Sequence[str], counter: ReadCounter) -> Iterator[LabeledFile]:
    names = dict(pair.split("=", 1) for pair in pairs)
    for example in examples:
        labels = tuple(names.get(label, label) for label in example.labels)
        if "" in labels:
            counter.drop("with a label that is left out", example.location, str(example.path))
        else:
            yield replace(example, labels=labels)


# --- splitting and reports --------------------------------------------------------------------------------------------


def split_key(path: Path) -> str:
    """The text by whose hash a file is assigned to a part: folder and name, so that the data may be moved."""
    return "/".join(path.parts[-2:])


def split_files(
    config: ClassifyConfig, sources: Sources[Any], files: dict[str, list[LabeledFile]]
) -> dict[str, np.ndarray]:
    """The indices of train, dev and test in the files of all parts, one after another."""
    sizes = [len(files[part]) for part in ("train", "dev", "test")]
    train, dev, test = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    splits = config.data.splits(has_dev="dev" in sources, has_test="test" in sources, seed=config.seed)
    keys, groups = [split_key(file.path) for file in files["train"]], [file.labels for file in files["train"]]
    with sources.explaining():
        index = splits.rows(keys, groups, fold=config.data.fold)
    return {
        "train": train[index.train],
        "dev": dev if "dev" in sources else train[index.dev],
        "test": test if "test" in sources else train[index.test],
    }


def describe_parts(kind: str, parts: dict[str, MediaRows], names: Sequence[str], sample_rate: int) -> list[str]:
    """Lines about the data: sizes, and the labels of train. ``sample_rate`` is 0 for pictures."""
    lines = []
    for part, rows in parts.items():
        if len(rows):
            seconds = rows.lengths / sample_rate if sample_rate else None
            length = "" if seconds is None else f", {seconds.mean():.2f} s on average, {seconds.max():.2f} s at most"
            lines.append(f"{part}: {len(rows):,} {kind}s{length}")
    counts = Counter(label for labels in parts["train"].gold for label in labels)
    return [*lines, describe_labels(names, counts)]
