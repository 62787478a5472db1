"""Files of given brackets: one line per sentence, ``1-3:NP 5-9 !2-4``, or ``_`` for none.

Words are numbered from 1, and both ends are inclusive. A span may have the label of its innermost bracket; over one
word it is the word's tag. ``!`` forbids a bracket over exactly these words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from catena.data.files import bad_line, open_text
from catena.errors import DataError

_GIVEN = re.compile(r"(!?)(\d+)-(\d+)(?::(\S+))?")


class BracketConstraint(NamedTuple):
    """A bracket that must, or must not, be in the tree, over words ``first`` to ``end - 1``."""

    first: int
    end: int
    label: str | None
    wanted: bool


def read_given(path: Path) -> Iterator[tuple[BracketConstraint, ...]]:
    """The given brackets of each line."""
    with open_text(path) as lines:
        for number, line in lines:
            yield tuple(_one(path, number, line, part) for part in line.split() if part != "_")


def _one(path: Path, number: int, line: str, part: str) -> BracketConstraint:
    match = _GIVEN.fullmatch(part)
    cure = "Write first-last or first-last:LABEL, !first-last to forbid, words numbered from 1, and _ for nothing"
    if match is None:
        raise bad_line(path, number, line, f"has {part[:30]!r}, which is not a span", cure)
    sign, first, last, label = match.groups()
    if not 1 <= int(first) <= int(last):
        raise bad_line(
            path, number, line, f"has the span {part!r}, whose first word is below 1 or after its last", cure
        )
    if first == last and label is None:
        raise bad_line(path, number, line, f"has {part!r}, one word without its tag", "Give the tag, as in 3-3:NN")
    if sign and label:
        raise bad_line(path, number, line, f"forbids {part!r} with a label, which is not supported", cure)
    return BracketConstraint(int(first) - 1, int(last), label, not sign)


def check_given(given: tuple[BracketConstraint, ...], n: int) -> None:
    """Raise DataError for brackets outside the sentence, and for brackets that cross."""
    for one in given:
        if one.end > n:
            raise DataError(
                f"brackets must end at word {n} or before, got {one.first + 1}-{one.end}. Correct the file of brackets."
            )
    wanted = [one for one in given if one.wanted]
    for one in wanted:
        for other in wanted:
            if one.first < other.first < one.end < other.end:
                raise DataError(
                    f"the brackets {one.first + 1}-{one.end} and {other.first + 1}-{other.end} cross, so no tree has "
                    f"both. Remove one of them."
                )


def crossing_spans(given: tuple[BracketConstraint, ...], n: int) -> set[tuple[int, int]]:
    """The spans ``(first, end)`` that cross a required bracket. The brackets are checked first."""
    check_given(given, n)
    found: set[tuple[int, int]] = set()
    for first, end, _, wanted in given:
        if wanted:
            found |= {(i, j) for i in range(first) for j in range(first + 1, end)}
            found |= {(i, j) for i in range(first + 1, end) for j in range(end + 1, n + 1)}
    return found
