"""Arrays and objects in the text of a JSON document, with the lines in which their parts begin.

Tested in tests/data/test_records.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catena.data.files import bad_line
from catena.data.readers.annotations import of_list
from catena.data.roles import known_roles

GAP = re.compile(r"[\s,]*")
"""What may be between the parts of an array or an object."""


def read_items(text: str, start: int, path: Path, *, are_turns: bool = False) -> list[tuple[int, dict[str, Any]]]:
    """The records of the array that begins at ``start``, with their lines. A row may be an array of values."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, dict[str, Any]]] = []
    names: list[str] | None = None
    at, line, counted = start + 1, 1 + text.count("\n", 0, start + 1), start + 1
    while True:
        at = GAP.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or text[at] == "]":
            return found
        line += text.count("\n", counted, at)
        counted = at
        item, at = decoder.raw_decode(text, at)
        if isinstance(item, str):
            item = {"text": item}
        if isinstance(item, list):
            item = {"turns": item} if are_turns else of_list(item) or item
        if is_row(item):
            if names is None and len(known_roles(list(map(str, item)))) > 1:
                names = list(map(str, item))
                continue
            names = names or [str(j + 1) for j in range(len(item))]
            item = dict(zip(names, item, strict=False)) if len(item) == len(names) else item
        if not isinstance(item, dict):
            raise bad_line(
                path, line, json.dumps(item)[:200], "must be a JSON object", 'Write it as {"text": "…", "label": "…"}.'
            )
        found.append((line, item))


def read_entries(text: str, start: int) -> Iterator[tuple[str, int, Any]]:
    """The keys of the object that begins at ``start``, and the start and value of each."""
    decoder, at = json.JSONDecoder(), start + 1
    while text[at := GAP.match(text, at).end()] != "}":  # type: ignore[union-attr]
        key, at = decoder.raw_decode(text, at)
        at = re.compile(r"\s*:\s*").match(text, at).end()  # type: ignore[union-attr]
        value, end = decoder.raw_decode(text, at)
        yield key, at, value
        at = end


def is_row(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and not any(isinstance(one, (dict, list)) for one in value)


def is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def is_table(value: Any) -> bool:
    if not isinstance(value, list) or len(value) < 2 or not all(is_row(row) for row in value):
        return False
    return len({len(row) for row in value}) == 1
