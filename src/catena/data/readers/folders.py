"""A folder with one folder for each label, which holds a text file for each text, as the IMDB reviews come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.readers.rows import EMPTY, Row
from catena.errors import FormatError

_UNLABELED = frozenset({"unsup", "unlabeled", "unlabelled"})
"""Names of folders of texts without a label."""
_FEW = 20


def label_folders(path: Path) -> list[Path]:
    """The folders of the labels, if each holds text files and no folders; otherwise none."""
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    return folders if folders and all(map(_has_texts, folders)) else []


def _has_texts(folder: Path) -> bool:
    inside = [file for file in folder.iterdir() if not file.name.startswith(".")]
    return bool(inside) and all(file.suffix == ".txt" and file.is_file() for file in inside[:_FEW])


def read(path: Path, encoding: str | None = None) -> Iterator[Row]:
    """A row for each file, with its text, label and name, by label and name."""
    if not path.is_dir() or not label_folders(path):
        what = "is a folder without" if path.is_dir() else "is not a folder of"
        raise FormatError(f"{path} {what} folders of .txt files for each label. Pass another --input-format.")
    for folder in label_folders(path):
        for file in sorted(folder.glob("*.txt")):
            with open_text(file, encoding) as lines:
                text = "\n".join(line for _, line in lines)
            label = "" if folder.name in _UNLABELED else folder.name
            values = {"text": text, "label": label, "file": str(file.relative_to(path))}
            yield Row(SourceLocation(str(file), 1), values, text, None if text.strip() else EMPTY)
