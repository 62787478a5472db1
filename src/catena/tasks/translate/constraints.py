"""Constraints on translations, read from a file.

Each line has the constraints of one text, separated by tabs::

    Haus <TAB> -Hund <TAB> ^Das

A field is a phrase that must occur. A field that starts with - must not occur, and a field that starts with ^ is the
prefix of the translation (write + before a phrase that itself starts with one of these signs). Phrases match whole
words: Haus does not match Haustier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from catena.data.files import open_text
from catena.errors import DataError
from catena.search.text_constraints import TextConstraints

NO_CONSTRAINTS = TextConstraints()


def parse_constraints(line: str) -> TextConstraints:
    """The constraints of a line."""
    include, exclude, prefix = [], [], ""
    for part in (part.strip() for part in line.split("\t")):
        if part[:1] == "-":
            exclude.append(part[1:].strip())
        elif part[:1] == "^":
            prefix = part[1:].strip()
        elif part:
            include.append(part.removeprefix("+").strip())
    return TextConstraints(tuple(filter(None, include)), tuple(filter(None, exclude)), prefix=prefix)


def read_constraints(path: Path) -> list[TextConstraints]:
    """The constraints of each line of a file."""
    listed = []
    with open_text(path) as lines:
        for number, line in lines:
            listed.append(parse_constraints(line))
            listed[-1].check(f"{path}:{number}")
    if not listed:
        raise DataError(f"{path} is empty. Write one line for each text, or one line for all texts.")
    return listed


def zip_constraints(items: Iterable[Any], path: Path) -> Iterator[tuple[Any, TextConstraints]]:
    """Each item with its constraints: those of its line of a file, or those of the only line."""
    listed, n = read_constraints(path), 0
    constraints = iter(listed) if len(listed) > 1 else repeat(listed[0])
    for n, item in enumerate(items, start=1):
        own = next(constraints, None)
        if own is None:
            raise DataError(_uneven(path, len(listed), f"{n:,} or more"))
        yield item, own
    if 1 < len(listed) != n:
        raise DataError(_uneven(path, len(listed), f"{n:,}"))


def _uneven(path: Path, lines: int, texts: str) -> str:
    return (
        f"{path} must have 1 line, or one line for each of the {texts} texts, got {lines:,} lines. Leave the line of a "
        f"text empty if it has no constraint."
    )
