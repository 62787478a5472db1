"""Which files are pictures and which are sounds, by their names: single files, folders of labels, columns of tables.

Only names are read here, so that a format is detected without Pillow and soundfile. Tested in
tests/data/test_media_files.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

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
