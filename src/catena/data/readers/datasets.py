"""Folders written by ``save_to_disk`` of Hugging Face ``datasets``, read with pyarrow (the extra ``parquet``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catena.data.examples import LabeledText
from catena.data.files import is_datasets_folder
from catena.data.readers.format import Format
from catena.data.readers.format_rules import datasets_sign, hint
from catena.data.readers.parquet import PURPOSE, read_arrow
from catena.errors import FormatError
from catena.extras import require
from catena.registry import did_you_mean


def read(
    path: Path | str,
    *,
    split: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
    labeled: bool = True,
) -> Iterator[LabeledText]:
    """Yield one example for each row. The line of its location is the number of the row, from 1.

    Args:
        path: the folder.
        split: the split to read if there are several, such as "train".
        text_column: detected by common names if omitted.
        label_column: detected by common names if omitted. Numbered classes become their names.
        separator: separator of several labels in one string, such as "|".
        labeled: False reads only texts.
    """
    folder = _split_folder(Path(path), split)
    require("pyarrow", "parquet", PURPOSE)
    files = _data_files(folder)
    features: Any = {}
    if (folder / "dataset_info.json").is_file():
        features = _json(folder / "dataset_info.json").get("features")
    features = features if isinstance(features, dict) else {}
    yield from read_arrow(folder, files, features, text_column, label_column, separator, labeled)


def splits(path: Path | str) -> list[str]:
    """The names of the splits of a folder, or none for a folder without splits."""
    file = Path(path) / "dataset_dict.json"
    found = _json(file).get("splits") if file.is_file() else []
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FormatError(f"{file} does not list splits. Save the dataset again.")
    return found


def _split_folder(path: Path, split: str | None) -> Path:
    if not path.is_dir() or not is_datasets_folder(path):
        there = "is a folder without state.json or dataset_dict.json" if path.is_dir() else "is not a folder"
        raise FormatError(f"{path} {there}, so it was not written by save_to_disk. {hint(path, 'datasets')}".rstrip())
    known = splits(path)
    if not known:
        if split is not None:
            raise FormatError(f"{path} has no splits, got split {split!r}. Remove the split.")
        return path
    if split is None:
        raise FormatError(
            f"{path} has the splits {', '.join(map(repr, known))}. Choose one, or pass {path / known[0]}."
        )
    if split not in known:
        raise FormatError(f"{path} has no split {split!r}: {did_you_mean(split, known)}")
    return path / split


def _data_files(folder: Path) -> list[Path]:
    """The files that state.json lists. Raise FormatError if one is missing."""
    entries = _json(folder / "state.json").get("_data_files")
    entries = entries if isinstance(entries, list) else []
    names = [entry.get("filename") for entry in entries if isinstance(entry, dict)]
    files = [folder / name for name in names if isinstance(name, str) and name == Path(name).name]
    if not files or len(files) != len(names):
        raise FormatError(
            f"{folder / 'state.json'} does not list the data files as _data_files. Save the dataset again."
        )
    for file in files:
        if not file.is_file():
            raise FormatError(f"{folder} has no {file.name}, which state.json lists. Copy the folder again.")
    return files


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError(f"File not found: {file}, which save_to_disk writes. Copy the folder again.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"Cannot read {file} as JSON: {error}. Copy the folder again.") from None
    if not isinstance(found, dict):
        raise FormatError(f"{file} must be a JSON object, got a {type(found).__name__}. Copy the folder again.")
    return found


FORMAT = Format("datasets", "Hugging Face datasets folder", LabeledText, read, datasets_sign)
