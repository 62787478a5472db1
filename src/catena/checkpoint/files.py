"""Files that are written atomically, and hashes that detect damage."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished-"
"""Prefix of the names of unfinished files."""


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file under a temporary name and rename it, so that readers see the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = temporary(path.parent)
    try:
        with unfinished.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(path.parent)


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_json(value: Any) -> str:
    """JSON text, sorted and indented. Raise ValueError for nan and infinity, which are not valid JSON."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def temporary(folder: Path) -> Path:
    """A unique name in a folder for an unfinished file."""
    return folder / f"{UNFINISHED}{secrets.token_hex(6)}"


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder and does not need this
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(value: Any) -> str:
    """The sha256 of a value as JSON, in hexadecimal, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
