"""JSON lines with arbitrary keys: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text


def objects(path: Path, encoding: str | None = None) -> Iterator[tuple[SourceLocation, dict[str, Any]]]:
    """The objects of a file with their locations. Blank lines are skipped."""
    with open_text(path, encoding) as lines:
        for number, line in lines:
            if line.strip():
                place = SourceLocation(str(path), number)
                yield place, parse_object(line, place)


def parse_object(line: str, place: SourceLocation) -> dict[str, Any]:
    """The object in one line."""
    try:
        thing = json.loads(line)
    except (ValueError, RecursionError) as error:
        cure = "Write one complete JSON object per line."
        raise bad_line(place.file, place.line, line, f"is not JSON ({error})", cure) from None
    if not isinstance(thing, dict):
        raise bad_line(place.file, place.line, line, "is not a JSON object", "Write one object per line.")
    return thing


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
