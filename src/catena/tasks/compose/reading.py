"""Goals, agendas and texts from files: JSON lines, or three columns with tabs between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.data.examples import Place
from catena.data.files import bad_line, open_text
from catena.data.readers.names import COMPOSED_NAMES as TEXT_NAMES
from catena.data.readers.names import GOAL_NAMES, ITEM_NAMES, find_name
from catena.errors import FormatError
from catena.tasks.compose.settings import ComposeData

NOWHERE = Place("", 0)
BETWEEN = "|"
"""What stands between the items of a line with tabs."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A goal, the items on its agenda, and the text, which is empty where it is to be written."""

    goal: str
    items: tuple[str, ...]
    text: str = ""
    place: Place = NOWHERE


def read(path: Path, data: ComposeData, with_text: bool = True) -> Iterator[Composition]:
    """The examples of a file. A blank line is an empty one, so that counts reconcile."""
    format = data.format
    with open_text(path, data.encoding) as lines:
        for number, line in lines:
            place = Place(str(path), number)
            if format == "auto" and line.strip():
                format = "jsonl" if line.lstrip().startswith("{") else "tsv"
            if not line.strip():
                yield Composition("", (), "", place)
            elif format == "jsonl":
                yield _of_object(line, place, data, with_text)
            elif number > 1 or not names_columns(line):
                yield of_fields(line, place, with_text)


def of_line(line: str, data: ComposeData, number: int = 1) -> Composition:
    """What is to be written, from a line that a person types: an object, or goal, tab and items; or blank."""
    place = Place("standard input", number)
    if not line.strip():
        return Composition("", (), "", place)
    if line.lstrip().startswith("{"):
        return _of_object(line, place, data, False)
    return of_fields(line, place, False)


def of_fields(line: str, place: Place, with_text: bool) -> Composition:
    """A line of goal, tab, items with | between, and where there is a text a tab and the text."""
    fields = line.split("\t")
    if len(fields) == 2 and not with_text:
        fields.append("")
    if len(fields) != 3:
        what = "goal<TAB>item | item<TAB>text" if with_text else "goal<TAB>item | item"
        cure = f"Every line must be {what}, or an object of JSON."
        raise bad_line(place.file, place.line, line, f"has {len(fields)} tab-separated fields", cure)
    return Composition(fields[0].strip(), _items(fields[1].split(BETWEEN)), fields[2].strip(), place)


def _items(parts: list[str]) -> tuple[str, ...]:
    return tuple(item for part in parts if (item := " ".join(part.split())))


def names_columns(line: str) -> bool:
    """Whether a first line holds the names of the columns."""
    fields = [field.strip().casefold() for field in line.split("\t")]
    return len(fields) in (2, 3) and all(
        field in names for field, names in zip(fields, (GOAL_NAMES, ITEM_NAMES, TEXT_NAMES), strict=False)
    )


def _of_object(line: str, place: Place, data: ComposeData, with_text: bool) -> Composition:
    try:
        thing = json.loads(line)
    except (ValueError, RecursionError) as error:
        cure = "Every line must be one whole object of JSON."
        raise bad_line(place.file, place.line, line, f"is not JSON ({error})", cure) from None
    if not isinstance(thing, dict):
        cure = 'Every line must be an object such as {"title": "…", "ingredients": ["…"], "text": "…"}.'
        raise bad_line(place.file, place.line, line, f"is a JSON {type(thing).__name__}, not an object", cure)
    goal = _value(thing, data.goal_column, GOAL_NAMES, "data.goal_column", place)
    items = _value(thing, data.items_column, ITEM_NAMES, "data.items_column", place)
    text = _value(thing, data.text_column, TEXT_NAMES, "data.text_column", place) if with_text else ""
    listed = items if isinstance(items, list) else str(items).split(BETWEEN)
    return Composition(_text(goal), _items([str(item) for item in listed]), _text(text), place)


def _value(thing: dict[str, Any], named: str | None, names: tuple[str, ...], option: str, place: Place) -> Any:
    key = named if named is not None else find_name(list(thing), names)
    if key is None or key not in thing:
        there = ", ".join(map(repr, thing))
        what = f"no key {named!r}" if named is not None else f"none of the keys {', '.join(names)}"
        raise FormatError(f"{place} has {what}, but {there}: name one as {option}")
    return thing[key]


def _text(value: Any) -> str:
    """A text, or its paragraphs one after another."""
    return " ".join(" ".join(map(str, value if isinstance(value, list) else [value])).split())
