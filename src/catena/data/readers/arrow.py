"""Parquet and Arrow files, and folders of Hugging Face ``datasets``, read in batches with pyarrow.

pyarrow is the extra ``parquet``. Numbered classes become their names if the file has them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.files import decompress, is_datasets_folder
from catena.data.readers.delimited import Row
from catena.data.readers.objects import flatten
from catena.errors import CatenaError, FormatError
from catena.extras import require
from catena.registry import did_you_mean

_PURPOSE = "reading Parquet and Arrow files"
_BATCH_ROWS = 1024


class ArrowTable:
    """A table in one or several Arrow or Parquet files.

    Args:
        path: the file, or the folder that ``save_to_disk`` wrote.
        split: the split of a folder that has several.
    """

    def __init__(self, path: Path, split: str | None = None) -> None:
        require("pyarrow", "parquet", _PURPOSE)
        self.path = path
        self._files: Sequence[Path] | None = None
        features: Any = None
        if path.is_dir() or split is not None:
            folder = _split_folder(path, split)
            self._files = _data_files(folder)
            info = folder / "dataset_info.json"
            features = _json(info).get("features") if info.is_file() else None
        with self._open() as files:
            self.names, described = _described(path, files[0])
        self._features = features if isinstance(features, dict) else described

    def class_names(self, column: str) -> tuple[str, ...]:
        """The names of the numbered classes of a column, or of lists of classes; empty if there are none."""
        feature = self._features.get(column)
        if isinstance(feature, list) and feature:
            feature = feature[0]
        if isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
            feature = feature["feature"]
        names = feature.get("names") if isinstance(feature, dict) else None
        return tuple(map(str, names)) if isinstance(names, list) else ()

    def rows(self) -> Iterator[Row]:
        """The rows in order. The line of a location is the number of the row, from 1."""
        number = 0
        with self._open() as files, _explained(self.path):
            for file in files:
                for batch in _record_batches(file):
                    batch.validate(full=True)
                    for record in batch.to_pylist():
                        number += 1
                        values = flatten(record)
                        yield Row(SourceLocation(str(self.path), number), values, str(record)[:1000])

    @contextlib.contextmanager
    def _open(self) -> Iterator[Sequence[Path]]:
        if self._files is not None:
            yield self._files
        else:
            with decompress(self.path) as plain:
                yield [plain]


def splits(path: Path | str) -> list[str]:
    """The names of the splits of a folder, or none for a folder without splits."""
    file = Path(path) / "dataset_dict.json"
    found = _json(file).get("splits") if file.is_file() else []
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FormatError(f"{file} does not list splits. Save the dataset again.")
    return found


# --- folders ----------------------------------------------------------------------------------------------------------


def _split_folder(path: Path, split: str | None) -> Path:
    if not path.is_dir() or not is_datasets_folder(path):
        there = "is a folder without state.json or dataset_dict.json" if path.is_dir() else "is not a folder"
        raise FormatError(f"{path} {there}, so it was not written by save_to_disk. Pass another --input-format.")
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


# --- pyarrow ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _explained(shown: Path) -> Iterator[None]:
    """Context that turns errors of pyarrow into a FormatError."""
    try:
        yield
    except (CatenaError, GeneratorExit):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(
            f"Cannot read {shown} as Parquet or Arrow ({reason}). It may be truncated or damaged: copy or download it "
            f"again, or pass another --input-format."
        ) from None


def _is_parquet(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == b"PAR1"


def _open_arrow(file: Path) -> Any:
    """An Arrow file or stream; both yield batches. Hugging Face writes streams."""
    ipc = require("pyarrow.ipc", "parquet", _PURPOSE)
    with open(file, "rb") as stream:
        is_file = stream.read(6) == b"ARROW1"
    return ipc.open_file(str(file)) if is_file else ipc.open_stream(str(file))


def _described(shown: Path, file: Path) -> tuple[list[str], dict[str, Any]]:
    """The column names, and the features of Hugging Face."""
    with _explained(shown):
        if _is_parquet(file):
            schema = require("pyarrow.parquet", "parquet", _PURPOSE).read_schema(file)
        else:
            with _open_arrow(file) as reader:
                schema = reader.schema
        return list(schema.names), _features(schema)


def _record_batches(file: Path) -> Iterator[Any]:
    if _is_parquet(file):
        with require("pyarrow.parquet", "parquet", _PURPOSE).ParquetFile(file) as reader:
            yield from reader.iter_batches(batch_size=_BATCH_ROWS)
        return
    with _open_arrow(file) as reader:
        if hasattr(reader, "num_record_batches"):
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i)
        else:
            yield from reader


def _features(schema: Any) -> dict[str, Any]:
    """The features of Hugging Face in the metadata of a file."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        described = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return described if isinstance(described, dict) else {}
    return {}
