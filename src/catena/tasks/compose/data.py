"""Read goals, agendas and texts from JSON lines, tables with a header row, or three tab-separated columns."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.files import bad_line
from catena.data.readers.objects import parse_line
from catena.data.reading import ReadCounter
from catena.data.records import open_records
from catena.data.roles import COMPOSED, ITEM_COLUMNS, ITEMS, TITLE, TITLE_COLUMNS, find_column
from catena.errors import DataError, FormatError
from catena.tasks.compose.config import ComposeDataConfig

USER_INPUT_LOCATION = SourceLocation("input", 1)
SEPARATOR = "|"
"""The separator of items in a tab-separated line."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A goal, the items of its agenda, and the text, which is empty if it is to be generated."""

    goal: str
    items: tuple[str, ...]
    text: str = ""
    location: SourceLocation = USER_INPUT_LOCATION


# --- files ------------------------------------------------------------------------------------------------------------


def read_compositions(
    data: ComposeDataConfig, path: Path, counter: ReadCounter, *, gold: bool = True
) -> Iterator[Composition]:
    """The examples of a file; without ``gold`` texts are not read, and a blank line is an empty example."""
    named = {"title": data.goal_column, "items": data.items_column, "text": data.text_column if gold else None}
    columns = {role: column for role, column in named.items() if column is not None}
    roles = (replace(TITLE, required=False), replace(ITEMS, required=False), COMPOSED)[: 2 + gold]
    format = None if data.input_format == "auto" else data.input_format
    found = detect_format(path, data.encoding)
    if not found.is_known and format is None:
        raise FormatError(found.why)
    layout = found.options.get("layout")
    if layout is not None and layout.header is None and layout.delimiter == "\t" and not columns:
        columns = {"title": "1", "items": "2", **({"text": "3"} if gold else {})}
    file = open_records(path, roles, format=format, columns=columns, encoding=data.encoding)
    missing = [role for role in ("title", "items") if role not in file.choices]
    if missing:
        names = ", ".join(map(repr, file.table.names))
        known = {"title": TITLE_COLUMNS, "items": ITEM_COLUMNS}[missing[0]]
        option = "goal" if missing[0] == "title" else missing[0]
        raise FormatError(
            f"{path} has none of the columns {', '.join(known)}, only {names}. Set data.{option}_column "
            f"(--data.{option}-column) to one of them."
        )
    for record in file.read(counter, keep_empty=not gold):
        text = _text(_listed(record["text"] or "")) if gold else ""
        goal, items = " ".join((record["title"] or "").split()), record["items"] or ()
        yield Composition(goal, _items(items), text, record.location)


# --- inputs of a user -------------------------------------------------------------------------------------------------


def to_composition(item: Any, data: ComposeDataConfig) -> Composition:
    """The goal and items of an input: a pair, an object, or a line with goal<TAB>items or a JSON object."""
    if isinstance(item, Composition):
        return item
    if isinstance(item, str):
        return _of_line(item, data)
    if isinstance(item, Mapping):
        return _of_object(item, data)
    if not isinstance(item, Sequence) or len(item) != 2 or isinstance(item[1], str):
        raise DataError(f"an input must be a goal and a list of items, got {item!r:.60}. Pass (goal, items).")
    return Composition(_text(item[0]), _items(list(map(str, item[1]))))


def _of_line(line: str, data: ComposeDataConfig) -> Composition:
    if not line.strip():
        return Composition("", ())
    if line.lstrip().startswith("{"):
        return _of_object(parse_line(line, USER_INPUT_LOCATION), data)
    fields = line.split("\t")
    if len(fields) not in (2, 3):
        n = f"{len(fields)} tab-separated field{'s' * (len(fields) != 1)}"
        cure = "Write goal<TAB>item | item on every line, or a JSON object."
        raise bad_line(USER_INPUT_LOCATION.file, USER_INPUT_LOCATION.line, line, f"has {n}", cure)
    return Composition(fields[0].strip(), _items(fields[1].split(SEPARATOR)))


def _of_object(thing: Mapping[str, Any], data: ComposeDataConfig) -> Composition:
    goal = _value(thing, data.goal_column, TITLE_COLUMNS, "goal_column")
    items = _listed(_value(thing, data.items_column, ITEM_COLUMNS, "items_column"))
    if not isinstance(items, list | tuple):
        items = [part for line in str(items).split("\n") for part in line.split(SEPARATOR)]
    return Composition(_text(goal), _items([str(item) for item in items]))


def _value(thing: Mapping[str, Any], named: str | None, names: tuple[str, ...], option: str) -> Any:
    key = named if named is not None else find_column(list(thing), names)
    if key is None or key not in thing:
        known = ", ".join(map(repr, thing))
        what = f"no key {named!r}" if named is not None else f"none of the keys {', '.join(names)}"
        flag = f"--data.{option.replace('_', '-')}"
        raise FormatError(f"The input has {what}, only {known}. Set data.{option} ({flag}) to one of them.")
    return thing[key]


# --- values -----------------------------------------------------------------------------------------------------------


def _items(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(item for part in parts if (item := " ".join(part.split())))


def _listed(value: Any) -> Any:
    """The list of a string that contains one in JSON or Python syntax; any other value unchanged."""
    if not (isinstance(value, str) and value.lstrip().startswith("[")):
        return value
    for read_list in (json.loads, ast.literal_eval):
        try:
            values = read_list(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(values, list):
            return values
    return value


def _text(value: Any) -> str:
    """The text of a value: a string, or a list of paragraphs, which are strings or objects with a text."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(
        " ".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts).split()
    )
