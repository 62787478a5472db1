"""Files and text at the lowest level: atomic writing, pipes, and control characters escaped for a terminal.

    with atomic_write(path) as unfinished:
        unfinished.write_text(text)

This module does not know what it writes. Tested in tests/test_files.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catena.errors import FormatError

UNFINISHED = ".unfinished-"
"""Prefix of the names of unfinished files and folders."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, overrides of the text direction, and lone surrogates."""
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except tab and line feed."""


def escape_controls(text: str, *, direction: bool = True) -> str:
    r"""The text with control characters as ``\x1b`` or ``\u202e``, so that printing it only shows it.

    Tabs and line feeds are kept. Text of data files passes through here before it is printed.

    Args:
        text: the text.
        direction: also escape marks of the text direction, which are normal in Arabic and Hebrew, and separators of
            lines and paragraphs.
    """
    return (_CONTROL if direction else _CODES).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


@contextlib.contextmanager
def atomic_write(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A temporary path in the same folder, which replaces ``path`` if the block ends without an error.

    Readers see the old file or the complete new one. The folder is created if needed. A device or pipe, such as
    /dev/stdout, cannot be replaced and is yielded itself.

    Args:
        path: the file to write.
        sync: flush the file and its name to disk, so that they survive a crash of the machine.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = temporary_name(path.parent)
    try:
        with name_in_errors(path):
            yield unfinished
            if sync:
                flush_to_disk(unfinished)
            os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    if sync:
        flush_to_disk(path.parent)


@contextlib.contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Context whose system errors name the file: those of a failed write, such as a full disk, do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def temporary_name(folder: Path) -> Path:
    """A unique name in a folder for an unfinished file or folder."""
    return folder / f"{UNFINISHED}{secrets.token_hex(6)}"


def flush_to_disk(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder and does not need this
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- pipes ------------------------------------------------------------------------------------------------------------

_copies: dict[tuple[int, int, int], Path] = {}
_folder_of_copies: list[tempfile.TemporaryDirectory[str]] = []
"""The folder of copies, made at the first one and removed when the process ends."""


def local_copy(path: Path) -> Path:
    """A regular file with the bytes of ``path``: the path itself, or a copy if it is a pipe.

    A FIFO, a process substitution and /dev/stdin can be read only once. Their bytes are copied to a temporary file at
    the first call, and later calls of the process return the same copy.
    """
    state = path.stat()
    if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode):
        return path
    if (known := _copies.get(_pipe_key(state))) is not None:
        return known
    copy = _copy_pipe(path, state.st_mode)
    _copies[_pipe_key(path.stat())] = copy
    return copy


def _pipe_key(state: os.stat_result) -> tuple[int, int, int]:
    """The identity of a pipe. The time distinguishes it from a later pipe with the same number."""
    written = state.st_mtime_ns if stat.S_ISFIFO(state.st_mode) else 0
    return state.st_dev, state.st_ino, written


def _copy_pipe(path: Path, mode: int) -> Path:
    if not stat.S_ISFIFO(mode) and not stat.S_ISCHR(mode):
        raise FormatError(f"{path} is a socket or a disk, not a file. Pass a file.")
    with open(path, "rb", buffering=0) as source:
        if stat.S_ISCHR(mode) and not source.isatty() and not path.samefile(os.devnull):
            raise FormatError(f"{path} is a device, not a file. Pass a file.")
        if not _folder_of_copies:
            _folder_of_copies.append(tempfile.TemporaryDirectory(prefix="catena-"))
        copy = Path(_folder_of_copies[0].name) / str(len(_copies))
        with open(copy, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 16)
    return copy


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


def as_json(value: Any) -> str:
    """JSON text, sorted and indented. Raise ValueError for nan and infinity, which are not valid JSON."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def digest(value: Any) -> str:
    """The sha256 of a value as JSON, in hexadecimal, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
