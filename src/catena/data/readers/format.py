"""What detection finds out about a file: its format, the evidence in plain words, and the task that it implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.data.roles import ColumnChoice

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
