"""A label, a tab and a text per line, ``weather<TAB>will it rain tomorrow``, or the other way round.

A first line of column names, such as ``label<TAB>text``, is not an example and determines their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import LabeledText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import hint, tsv_label_sign
from catena.data.readers.names import LABEL_NAMES, TEXT_NAMES, find_name, split_labels


def read(
    path: Path | str, *, label_first: bool = True, separator: str | None = None, encoding: str | None = None
) -> Iterator[LabeledText]:
    """Yield one example for each line. A blank line gives an example without text and label.

    Args:
        path: the file.
        label_first: whether the label is before the first tab; otherwise it is after the last one.
        separator: separator of several labels of one text, such as "|". The field may then be empty.
        encoding: UTF-8 if omitted.
    """
    with open_text(path, encoding) as lines:
        for number, line in lines:
            if number == 1 and (named := _label_named_first(line)) is not None:
                label_first = named
                continue
            yield parse(line, SourceLocation(str(path), number), label_first=label_first, separator=separator)


def _label_named_first(line: str) -> bool | None:
    """Whether the label comes first in a line of column names, or None if the line is not a header."""
    fields = line.split("\t")
    if len(fields) != 2:
        return None
    for first, (label, text) in ((True, fields), (False, fields[::-1])):
        if find_name([label], LABEL_NAMES) is not None and find_name([text], TEXT_NAMES) is not None:
            return first
    return None


def parse(line: str, place: SourceLocation, *, label_first: bool = True, separator: str | None = None) -> LabeledText:
    """The example in one line."""
    if not line.strip():
        return LabeledText("", (), place)
    if "\t" not in line:
        raise _bad(place, line, "has no tab between label and text")
    if label_first:
        label, _, text = line.partition("\t")
    else:
        text, _, label = line.rpartition("\t")
    labels = split_labels(label, separator)
    if not labels and not separator:
        raise _bad(
            place,
            line,
            f"must have a label {'before the' if label_first else 'after the last'} tab, got nothing",
        )
    return LabeledText(text.strip(), labels, place)


def _bad(place: SourceLocation, line: str, problem: str) -> Exception:
    cure = "Write every line as label<TAB>text. " + hint(place.file, "tsv-label")
    return bad_line(place.file, place.line, line, problem, cure)


FORMAT = Format("tsv-label", "label and text, separated by a tab", LabeledText, read, tsv_label_sign)
