"""Constraints on translations, read from a file.

Each line has the constraints of one text, separated by tabs::

    Haus <TAB> -Hund <TAB> ^Das

A field is a phrase that must occur. A field that starts with - must not occur, and a field that starts with ^ is the
prefix of the translation (write + before a phrase that itself starts with one of these signs). Phrases match whole
words: Haus does not match Haustier.
"""

from __future__ import annotations

from pathlib import Path

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
