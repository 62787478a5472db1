"""Fixed-width text tables, by the width of characters in a terminal.

Tested in tests/metrics/test_brackets.py and tests/metrics/test_spans.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def width(text: str) -> int:
    """The number of terminal columns of a text: two for Chinese characters, none for combining marks."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)
    return len(text) + wide - marks


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column left-aligned, the others right-aligned, separated by two blanks."""
    widths = [max(width(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first + " " * (widths[0] - width(first))]
        cells += [" " * (w - width(cell)) + cell for cell, w in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
