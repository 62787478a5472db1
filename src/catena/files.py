"""Files and text at the lowest level: atomic writing, and control characters escaped for a terminal.

    with atomic_write(path) as unfinished:
        unfinished.write_text(text)

This module does not know what it writes. Tested in tests/test_files.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

UNFINISHED = ".unfinished-"
"""Prefix of the names of unfinished files and folders."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, overrides of the text direction, and lone surrogates."""


def escape_controls(text: str) -> str:
    r"""The text with control characters as ``\x1b`` or ``\u202e``, so that printing it only shows it.

    Tabs and line feeds are kept. Text of data files passes through here before it is printed on a terminal.
    """
    return _CONTROL.sub(_escaped, text)


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
        yield unfinished
        if sync:
            flush_to_disk(unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # a failed write does not name its file
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        unfinished.unlink(missing_ok=True)
    if sync:
        flush_to_disk(path.parent)


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
