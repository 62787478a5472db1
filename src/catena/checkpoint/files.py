"""Files that are written atomically, and hashes that detect damage."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from catena.errors import CheckpointError
from catena.files import atomic_write, local_copy


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file and flush it to disk, so that readers see the old file or the new one."""
    with atomic_write(path, sync=True) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


def file_sha256(path: Path) -> str:
    """The sha256 of a file or a pipe, or of the names and contents of the files of a folder, in hexadecimal."""
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        return digest([[file.relative_to(path).as_posix(), file_sha256(file)] for file in inside])
    with local_copy(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """The value in a JSON file of a run. Raise CheckpointError if the file is damaged, a pipe or a device."""
    check_regular(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: it is not valid JSON. Copy the run again, or train again.") from None


def check_regular(path: Path) -> None:
    """Raise CheckpointError if a path exists and is not a regular file: reading a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is not a regular file. Copy the run again, or train again.")


def as_json(value: Any) -> str:
    """JSON text, sorted and indented. Raise ValueError for nan and infinity, which are not valid JSON."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def digest(value: Any) -> str:
    """The sha256 of a value as JSON, in hexadecimal, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
