"""Plain text: every line is one example, including blank lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import SourceLocation, Text
from catena.data.files import open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import text_sign


def read(path: Path | str, *, encoding: str | None = None) -> Iterator[Text]:
    """Yield every line of a file, including blank ones, which the caller may drop."""
    with open_text(path, encoding) as lines:
        for number, line in lines:
            yield Text(line, SourceLocation(str(path), number))


FORMAT = Format("text", "plain text", Text, read, text_sign)
