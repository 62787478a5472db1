"""A label, a blank and a text per line, as in the datasets of Kim (2014).

An example is ``0 simplistic , silly and tedious .``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import LabeledText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import hint, kim_sign
from catena.data.readers.names import split_labels

_BLANK = re.compile(r"[ \t]")


def read(path: Path | str, *, separator: str | None = None, encoding: str | None = None) -> Iterator[LabeledText]:
    """Yield one example for each line. A blank line gives an example without text and label.

    Args:
        path: the file.
        separator: separator of several labels of one text, such as "|".
        encoding: UTF-8 if omitted.
    """
    with open_text(path, encoding) as lines:
        for number, line in lines:
            yield parse(line, SourceLocation(str(path), number), separator=separator)


def parse(line: str, place: SourceLocation, *, separator: str | None = None) -> LabeledText:
    """The example in one line. The label is the text before the first blank or tab."""
    if not line.strip():
        return LabeledText("", (), place)
    if line[0].isspace():
        cure = "Begin the line with the label. " + hint(place.file, "kim")
        raise bad_line(place.file, place.line, line, "must begin with a label, got a blank", cure)
    label, *rest = _BLANK.split(line, maxsplit=1)
    return LabeledText("".join(rest).strip(), split_labels(label, separator), place)


FORMAT = Format("kim", "label and text, separated by a blank", LabeledText, read, kim_sign)
