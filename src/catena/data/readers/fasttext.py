"""The fastText format: lines with any number of ``__label__x`` and then the text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import LabeledText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import fasttext_sign, hint

_PREFIX = "__label__"


def read(path: Path | str, *, prefix: str = _PREFIX, encoding: str | None = None) -> Iterator[LabeledText]:
    """Yield one example for each line. A blank line gives an example without text and label."""
    with open_text(path, encoding) as lines:
        for number, line in lines:
            yield parse(line, SourceLocation(str(path), number), prefix=prefix)


def parse(line: str, place: SourceLocation, *, prefix: str = _PREFIX) -> LabeledText:
    """The example in one line, whose labels come first."""
    rest, labels = line.strip(), []
    while rest.startswith(prefix):
        parts = rest.split(None, 1)
        labels.append(parts[0].removeprefix(prefix))
        rest = parts[1] if len(parts) > 1 else ""
    if (rest and not labels) or not all(labels):
        problem = f"has no name after {prefix}" if labels else f"does not begin with {prefix}"
        cure = f"Write every line as {prefix}name text. " + hint(place.file, "fasttext")
        raise bad_line(place.file, place.line, line, problem, cure)
    return LabeledText(rest, tuple(dict.fromkeys(labels)), place)


FORMAT = Format("fasttext", "fastText lines", LabeledText, read, fasttext_sign)
