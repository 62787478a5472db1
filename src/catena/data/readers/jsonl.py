"""JSON lines: one object per line, with a key for the text and one for the label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catena.data.examples import LabeledText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import hint
from catena.data.readers.names import SelectedColumns, choose_columns, parse_labels, whole_text
from catena.data.readers.table_signs import jsonl_sign
from catena.errors import FormatError


def read(
    path: Path | str,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
    labeled: bool = True,
    encoding: str | None = None,
) -> Iterator[LabeledText]:
    """Yield one example for each line. A blank line gives an example without text and label.

    Args:
        path: the file.
        text_column: the key of the text. Detected by common names in the first object if omitted.
        label_column: the key of the label (a string, an integer or a list of them). Detected if omitted.
        separator: separator of several labels in one string, such as "|".
        labeled: False reads only texts.
        encoding: UTF-8 if omitted.
    """
    chosen: SelectedColumns | None = None
    with open_text(path, encoding) as lines:
        for number, line in lines:
            place = SourceLocation(str(path), number)
            if not line.strip():
                yield LabeledText("", (), place)
                continue
            thing = _object(line, place)
            if chosen is None:
                chosen = choose_columns(str(place), list(thing), text_column, label_column, labeled)
            yield _example(thing, chosen, separator, line, place)


def _object(line: str, place: SourceLocation) -> dict[str, Any]:
    try:
        thing = json.loads(line)
    except RecursionError:
        raise bad_line(place.file, place.line, line, "is JSON nested too deeply", "Flatten it.") from None
    except ValueError as error:
        cure = "Write one complete JSON object per line. " + hint(place.file, "jsonl")
        raise bad_line(place.file, place.line, line, f"is not JSON ({error})", cure) from None
    if not isinstance(thing, dict):
        cure = 'Write every line as an object such as {"text": "…", "label": "…"}.'
        raise bad_line(place.file, place.line, line, f"must be a JSON object, got a {type(thing).__name__}", cure)
    return thing


def _example(
    thing: dict[str, Any], chosen: SelectedColumns, separator: str | None, line: str, place: SourceLocation
) -> LabeledText:
    text = _value(thing, chosen.text, line, place)
    key = chosen.text
    try:
        text = whole_text(text)
        if chosen.label is None:
            return LabeledText(text, (), place)
        key = chosen.label
        value = _value(thing, key, line, place)
        labels = parse_labels(value, separator)
        if not labels and not separator and not isinstance(value, list):
            raise ValueError("is empty")
    except FormatError:
        raise
    except ValueError as error:
        cure = "Correct it, or set other keys by --text-column and --label-column."
        raise bad_line(place.file, place.line, line, f"has a key {key!r} that {error}", cure) from None
    return LabeledText(text, labels, place)


def _value(thing: dict[str, Any], key: str, line: str, place: SourceLocation) -> Any:
    if key not in thing:
        cure = "Give every object the keys of the first."
        problem = f"has no key {key!r}, only {', '.join(map(repr, list(thing)[:12])) or 'none'}"
        raise bad_line(place.file, place.line, line, problem, cure)
    return thing[key]


FORMAT = Format("jsonl", "JSON lines", LabeledText, read, jsonl_sign)
