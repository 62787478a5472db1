"""The description of a file format: name, example type, reader, and detection rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from catena.data.readers.sample import FormatEvidence, Sample


@dataclass(frozen=True)
class Format:
    """One file format. ``read(path, …)`` takes the format's own options, such as those of its evidence."""

    name: str
    title: str
    """Readable name: "CoNLL-U"."""
    example: type
    read: Callable[..., Iterator[Any]]
    recognize: Callable[[Sample], FormatEvidence | None]
