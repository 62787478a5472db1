"""Files that are pictures, sounds or texts by their names: single files, folders of labels, columns of tables.

A format is detected from the names, without Pillow and soundfile. A folder of texts has one folder for each label,
which holds a text file for each text, as the IMDB reviews come. Tested in tests/data/test_media_files.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.readers.delimited import EMPTY, Row
from catena.errors import FormatError

MediaKind = Literal["picture", "sound"]

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
SOUND_ENDINGS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff", ".au", ".m4a", ".aac")
SPLIT_NAMES = ("train", "training", "dev", "valid", "validation", "val", "test", "testing")
"""Names of folders that are parts of the data rather than labels."""
_FEW = 50
"""Number of files of each folder whose names are read."""


def media_kind(path: PurePath | str) -> MediaKind | None:
    """Whether a file is a picture or a sound by its name; None if it is neither."""
    ending = PurePath(path).suffix.lower()
    if ending in PICTURE_ENDINGS:
        return "picture"
    return "sound" if ending in SOUND_ENDINGS else None


def common_kind(names: Iterable[PurePath | str]) -> MediaKind | None:
    """The kind that more than half of the names have; None if there is none."""
    kinds = Counter(media_kind(name) for name in names)
    kind, n = kinds.most_common(1)[0] if kinds else (None, 0)
    return kind if 2 * n > kinds.total() else None


def label_media_folders(path: Path) -> tuple[MediaKind, list[Path]] | None:
    """The kind of the files and the folders of the labels, if the subfolders of ``path`` hold pictures or sounds."""
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    names = [file.name for folder in folders for file in islice(_files(folder), _FEW)]
    kind = common_kind(names)
    return None if kind is None else (kind, folders)


def split_folders(path: Path) -> list[Path]:
    """The subfolders that are parts of the data, such as train and test, with folders of labels in them."""
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and folder.name.lower() in SPLIT_NAMES)
    return [folder for folder in folders if label_media_folders(folder) is not None]


def _files(folder: Path) -> Iterable[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))


# --- folders of texts -------------------------------------------------------------------------------------------------


_UNLABELED = frozenset({"unsup", "unlabeled", "unlabelled"})
"""Names of folders of texts without a label."""
_FEW_TEXTS = 20


def label_folders(path: Path) -> list[Path]:
    """The folders of the labels, if each holds text files and no folders; otherwise none."""
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    return folders if folders and all(map(_has_texts, folders)) else []


def _has_texts(folder: Path) -> bool:
    inside = [file for file in folder.iterdir() if not file.name.startswith(".")]
    return bool(inside) and all(file.suffix == ".txt" and file.is_file() for file in inside[:_FEW_TEXTS])


def read_folders(path: Path, encoding: str | None = None) -> Iterator[Row]:
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
