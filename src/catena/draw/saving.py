"""Atomic file writing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file in the same folder, creating the folder if needed, and rename it to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{secrets.token_hex(6)}.unfinished")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
