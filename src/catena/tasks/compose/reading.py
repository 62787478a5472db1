"""Read goals, agendas and texts from JSON lines, tables with a header row, or three tab-separated columns."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.delimited import records
from catena.data.readers.names import COMPOSED_NAMES as TEXT_NAMES
from catena.data.readers.names import GOAL_NAMES, ITEM_NAMES, find_name
from catena.data.readers.objects import parse_object
from catena.data.readers.paired import Table, read_csv_sample, read_tsv_sample
from catena.data.readers.sample import Sample
from catena.errors import FormatError
from catena.tasks.compose.config import ComposeDataConfig

_NOWHERE = SourceLocation("", 0)
BETWEEN = "|"
"""The separator of items in a tab-separated line."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A goal, the items of its agenda, and the text, which is empty if it is to be generated."""

    goal: str
    items: tuple[str, ...]
    text: str = ""
    place: SourceLocation = _NOWHERE


def read(path: Path, data: ComposeDataConfig, with_text: bool = True) -> Iterator[Composition]:
    """The examples of a file. A blank line is an empty example, so that counts reconcile."""
    format = data.format if data.format != "auto" else _format_of(path, data.encoding)
    if format != "jsonl":
        table = read_csv_sample(path, data.encoding) if format == "csv" else read_tsv_sample(path, data.encoding)
        yield from _of_table(path, table, data, with_text)
        return
    with open_text(path, data.encoding) as lines:
        for number, line in lines:
            place = SourceLocation(str(path), number)
            yield (
                _of_things(parse_object(line, place), place, data, with_text)
                if line.strip()
                else Composition("", (), "", place)
            )


def _format_of(path: Path, encoding: str | None) -> str:
    with open_text(path, encoding) as lines:
        first = next((line for _, line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        return "jsonl"
    return "csv" if Sample(path).is_named(".csv") and "\t" not in first else "tsv"


def _of_table(path: Path, table: Table, data: ComposeDataConfig, with_text: bool) -> Iterator[Composition]:
    """The rows of a table with a header row; a tab-separated table may have none."""
    names: list[str] | None = None
    may_be_named = True
    for place, fields in records(path, table.delimiter, table.quoted, data.encoding):
        if not any(field.strip() for field in fields):
            yield Composition("", (), "", place)
            continue
        if may_be_named:
            may_be_named, own = False, [field.strip() for field in fields]
            if table.delimiter != "\t" or _names_all(own, data, with_text):
                names = own
                _check_named(names, data, with_text, place)
                continue
        if names is None:
            yield of_fields(table.delimiter.join(fields), place, with_text)
        elif len(fields) != len(names):
            cure = "Write a field for each column, and quote fields that contain the delimiter."
            problem = f"has {len(fields)} fields, but the header row has {len(names)} columns"
            raise bad_line(place.file, place.line, table.delimiter.join(fields), problem, cure)
        else:
            yield _of_things(dict(zip(names, fields, strict=True)), place, data, with_text)


def _names_all(fields: list[str], data: ComposeDataConfig, with_text: bool) -> bool:
    """Whether the first row is a header with all needed columns."""
    asked = (data.goal_column, GOAL_NAMES), (data.items_column, ITEM_NAMES), (data.text_column, TEXT_NAMES)
    found = [find_name(fields, known) if own is None else own for own, known in asked]
    return all(name in fields for name in found[: 2 + with_text])


def _check_named(names: list[str], data: ComposeDataConfig, with_text: bool, place: SourceLocation) -> None:
    _of_things(dict.fromkeys(names, ""), place, data, with_text)


def of_line(line: str, data: ComposeDataConfig, number: int = 1) -> Composition:
    """The goal and items of an input line: a JSON object, goal<TAB>items, or blank."""
    place = SourceLocation("standard input", number)
    if not line.strip():
        return Composition("", (), "", place)
    if line.lstrip().startswith("{"):
        return _of_things(parse_object(line, place), place, data, False)
    return of_fields(line, place, False)


def of_fields(line: str, place: SourceLocation, with_text: bool) -> Composition:
    """The example of a line: the goal, a tab, items separated by | and, with a text, a tab and the text."""
    fields = line.split("\t")
    if len(fields) == 2 and not with_text:
        fields.append("")
    if len(fields) != 3:
        what = "goal<TAB>item | item<TAB>text" if with_text else "goal<TAB>item | item"
        cure = f"Write {what} on every line, or a JSON object."
        raise bad_line(
            place.file, place.line, line, f"has {len(fields)} tab-separated field{'s' * (len(fields) != 1)}", cure
        )
    return Composition(fields[0].strip(), _items(fields[1].split(BETWEEN)), fields[2].strip(), place)


def _items(parts: list[str]) -> tuple[str, ...]:
    return tuple(item for part in parts if (item := " ".join(part.split())))


def names_columns(line: str) -> bool:
    """Whether the first line is a header."""
    fields = [field.strip().casefold() for field in line.split("\t")]
    return len(fields) in (2, 3) and all(
        field in names for field, names in zip(fields, (GOAL_NAMES, ITEM_NAMES, TEXT_NAMES), strict=False)
    )


def _of_things(thing: dict[str, Any], place: SourceLocation, data: ComposeDataConfig, with_text: bool) -> Composition:
    goal = _value(thing, data.goal_column, GOAL_NAMES, "goal_column", place)
    items = _listed(_value(thing, data.items_column, ITEM_NAMES, "items_column", place))
    text = _value(thing, data.text_column, TEXT_NAMES, "text_column", place) if with_text else ""
    listed = (
        items if isinstance(items, list) else [part for line in str(items).split("\n") for part in line.split(BETWEEN)]
    )
    return Composition(_text(goal), _items([str(item) for item in listed]), _text(_listed(text)), place)


def _listed(value: Any) -> Any:
    """The list of a string that contains one in JSON or Python syntax; any other value unchanged."""
    if not (isinstance(value, str) and value.lstrip().startswith("[")):
        return value
    for read_list in (json.loads, ast.literal_eval):
        try:
            found = read_list(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list):
            return found
    return value


def _value(thing: dict[str, Any], named: str | None, names: tuple[str, ...], option: str, place: SourceLocation) -> Any:
    key = named if named is not None else find_name(list(thing), names)
    if key is None or key not in thing:
        there = ", ".join(map(repr, thing))
        what = f"no key {named!r}" if named is not None else f"none of the keys {', '.join(names)}"
        flag = f"--data.{option.replace('_', '-')}"
        raise FormatError(f"{place} has {what}, only {there}. Set data.{option} ({flag}) to one of them.")
    return thing[key]


def _text(value: Any) -> str:
    """The text of a value: a string, or a list of paragraphs, which are strings or objects with a text."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(
        " ".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts).split()
    )
