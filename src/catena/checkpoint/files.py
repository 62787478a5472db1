"""Files that are there whole or not at all, and hashes by which damage is found."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished-"
"""How the names begin of what is still being written."""


def write_text_atomically(path: Path, text: str) -> None:
    """Write a text file under a temporary name and rename it: readers see the old one or the new."""
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
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_json(value: Any) -> str:
    """JSON for a file: sorted, indented, and valid for every reader (nan and infinity are refused)."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def temporary(folder: Path) -> Path:
    """A name in a folder for what is not finished, which nothing else has."""
    return folder / f"{UNFINISHED}{secrets.token_hex(6)}"


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder, and needs no such call
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(value: Any) -> str:
    """The sha256 of a value as JSON, in hexadecimal; the order of keys makes no difference."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
