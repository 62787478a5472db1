"""Output files of commands, written completely or not at all, and checked before the work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from catena.cli.usage import UsageError
from catena.files import atomic_write


def check_writable(path: Path, example: str, read: str = "-") -> None:
    """Raise UsageError if ``path`` is a folder, in a missing folder, or the input file ``read`` (unless it is "-")."""
    if path.is_dir():
        raise UsageError(f"-o must be a file, got the folder {path}. Use {path / example}, for example.")
    if not path.parent.is_dir():
        raise UsageError(f"Cannot write {path}: there is no folder {path.parent}. Create it first.")
    if read != "-" and path.exists() and os.path.exists(read) and os.path.samefile(path, read):
        raise UsageError(f"{path} is the input file and would be overwritten. Pass another file as -o.")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines, so that ``path`` is complete or absent."""
    with atomic_write(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
