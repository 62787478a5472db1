"""What a format is: a name, what its examples are, how it is read, and the signs it is known by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from catena.data.readers.sample import FormatEvidence, Sample


@dataclass(frozen=True)
class Format:
    """One file format. ``read(path, …)`` takes the format's own options by name, such as those a Sign holds."""

    name: str
    title: str
    """For people: "CoNLL-U"."""
    example: type
    read: Callable[..., Iterator[Any]]
    recognize: Callable[[Sample], FormatEvidence | None]
