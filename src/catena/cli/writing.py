"""Files that a verb writes: there whole or not at all, and refused before the work if they cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from catena.cli.usage import UsageError


def check_writable(path: Path, example: str, read: str = "-") -> None:
    """Refuse a folder, a file in a folder that is not there, and the file that is ``read``, if it is not "-"."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it, such as {path / example}")
    if not path.parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {path.parent}")
    if read != "-" and path.exists() and os.path.exists(read) and os.path.samefile(path, read):
        raise UsageError(f"{path} is the file that is read, and would be lost: name another one as -o")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write to a temporary name and rename it, so that a file is there whole or not at all."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line + "\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
