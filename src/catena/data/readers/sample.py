"""The input and the result of format detection: a bounded sample of a file, and what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from catena.data.files import read_head, reading_errors, stored_name
from catena.data.roles import ColumnChoice
from catena.files import local_copy

HEAD_BYTES = 1 << 17
_WINDOW_BYTES = 1 << 15


@dataclass(frozen=True)
class Sample:
    """The first bytes of a file, their complete lines, and later lines."""

    path: Path
    head: bytes = b""
    lines: Sequence[str] = ()
    later: Sequence[str] = ()
    """Lines from the middle and the end, if the file supports random access. A file sorted by label needs them."""
    whole: bool = True
    """Whether the head is the whole file."""
    is_folder: bool = False
    encoding: str | None = None
    """The encoding that the user sets."""
    name: str = field(default="", compare=False)
    """The name of the data in lower case, without the ending of a compression."""

    @cached_property
    def filled(self) -> list[str]:
        """The lines of the head that are not blank."""
        return [line for line in self.lines if line.strip()]

    @cached_property
    def all_filled(self) -> list[str]:
        """As :attr:`filled`, including later lines."""
        return self.filled + [line for line in self.later if line.strip()]

    def numbered(self) -> list[tuple[int, str]]:
        """The lines of the head with their numbers."""
        return list(enumerate(self.lines, start=1))

    def is_named(self, *endings: str) -> bool:
        """Whether the name has one of these endings, possibly before that of a compression."""
        return self.name.endswith(endings)

    def most(self, n: int, lines: Sequence[object] | None = None) -> bool:
        """Whether ``n`` lines are all but a few: all but one, or 95 % of them."""
        total = len(self.all_filled if lines is None else lines)
        return 0 < n >= total - max(1 if total > 2 else 0, int(0.05 * total))


def take_sample(path: Path | str, encoding: str | None = None) -> Sample:
    """The first 128 KiB of a file and, if it is not compressed, 32 KiB from its middle and from its end."""
    path = Path(path)
    with reading_errors(path):
        if path.is_dir():
            return Sample(path, is_folder=True, encoding=encoding, name=path.name.lower())
    head, lines, whole = read_head(path, HEAD_BYTES, encoding)
    later: list[str] = []
    with reading_errors(path):
        plain = local_copy(path)
        if not whole and plain.stat().st_size > HEAD_BYTES + 2 * _WINDOW_BYTES:
            later = _windows(plain, head, encoding)
    return Sample(path, head, lines, later, whole, encoding=encoding, name=stored_name(path))


def _windows(path: Path, head: bytes, encoding: str | None) -> list[str]:
    size = path.stat().st_size
    found: list[str] = []
    with open(path, "rb") as stream:
        if stream.read(64) != head[:64] or head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head:
            return []  # compressed, or in an encoding without random access
        for start in (max(HEAD_BYTES, size // 2), size - _WINDOW_BYTES):
            stream.seek(start)
            pieces = re.split(rb"\r\n|\n|\r", stream.read(_WINDOW_BYTES))
            found += [piece.decode(encoding or "utf-8", "replace") for piece in pieces[1:-1]]
    return found


def list_names(names: Iterable[object], most: int = 8) -> str:
    """The first few names in quotes, and the number of the others."""
    quoted = [repr(name[:24]) + ("…" if len(name) > 24 else "") for name in map(str, names)]
    return ", ".join(quoted[:most]) + (f" and {len(quoted) - most} more" if len(quoted) > most else "")


# --- results ----------------------------------------------------------------------------------------------------------


UNKNOWN = "unknown"
"""The format of a file that cannot be used."""


@dataclass(frozen=True)
class DetectedFormat:
    """The result of detection.

    Args:
        format: a name in :data:`~catena.data.formats.FORMATS`, or "unknown".
        why: what was seen, in words; for an unknown format, what the file is and how to mend it.
        options: options of the reader, such as the layout of a table.
        task: the task that the file is for, or None.
        columns: the columns that the task reads, by role.
    """

    format: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)
    task: str | None = None
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        return self.format != UNKNOWN


def unknown(why: str) -> DetectedFormat:
    """The result for a file that cannot be used. ``why`` is complete: it names the file, the problem and the cure."""
    return DetectedFormat(UNKNOWN, why)
