"""Pairs of texts in tables of any width and in JSON lines: detection of their columns, and reading.

A table is CSV or tab-separated, with CSV quotes where fields are quoted. Its columns are named by its first row or
numbered from 1. The columns of JSON lines are the keys of an object, with a dot before the keys of nested objects.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from catena.data.examples import ParallelText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.pairing import (
    SENTENCE,
    are_responses,
    find_pair_columns_by_name,
    mean_words,
    names_columns,
    part_header,
)
from catena.data.readers.delimited import records
from catena.data.readers.names import TEXT_NAMES, PairColumns, find_name, whole_text
from catena.data.readers.objects import is_object, objects
from catena.data.readers.sample import Sample, list_names
from catena.data.readers.table_signs import is_quoted, repeats
from catena.errors import FormatError
from catena.registry import did_you_mean

_DELIMITERS = (",", ";", "|")
"""Possible delimiters of CSV."""
_SAMPLE = 200
"""Number of records that are examined."""
PairKind = Literal["lines", "tsv", "csv", "jsonl"]


FOUND = PairColumns()


@dataclass(frozen=True)
class Table:
    """The delimiter and first records of a table."""

    delimiter: str
    quoted: bool
    rows: Sequence[Sequence[str]]

    @property
    def width(self) -> int:
        """The number of fields of most records."""
        counted = Counter(len(row) for row in self.rows if any(field.strip() for field in row))
        return counted.most_common(1)[0][0] if counted else 0


def pair_layout(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> PairKind:
    """The layout of a file of pairs.

    It is JSON lines, CSV by its name, or a tab-separated table if it has more than two columns, CSV quotes or columns
    that the user sets; otherwise plain lines of source<TAB>target.
    """
    with open_text(path, encoding) as lines:
        filled = [line for _, line in islice(lines, _SAMPLE) if line.strip()]
    if not filled:
        return "lines"
    if filled[0].lstrip().startswith("{") and is_object(filled[0]):
        return "jsonl"
    tabs = {line.count("\t") for line in filled}
    if Sample(path).is_named(".csv") and tabs != {1}:
        return "csv"
    if tabs == {0}:
        return "lines"
    table = read_tsv_sample(path, encoding)
    even = len({len(row) for row in table.rows}) == 1 and table.width > 1
    return "tsv" if even and (table.width > 2 or table.quoted or columns.named) else "lines"


@dataclass(frozen=True)
class PairLayout:
    """Two columns of a table or two keys of objects with pairs, as detected from the first records."""

    source: str
    target: str
    """The column names, or the first texts if there are no names."""
    named: bool
    """Whether they were detected by name."""
    sentences: bool
    """Whether both have sentences rather than words."""
    labels: bool
    """Whether the targets repeat like labels and are not sentences."""

    @property
    def responses(self) -> bool:
        """Whether their names denote a context and a response."""
        return self.named and are_responses(self.source, self.target)


def recognize_pairs(path: Path, encoding: str | None = None) -> PairLayout | None:
    """The two columns of a file that are pairs, by name or as the only two columns, or None."""
    kind = pair_layout(path, encoding)
    if kind == "jsonl":
        flat = [_flat(thing) for _, thing in islice(objects(path, encoding), _SAMPLE)]
        names = list(flat[0])
        rows: list[list[Any]] = [[thing.get(name) for name in names] for thing in flat]
        sides = find_pair_columns_by_name([name.rsplit(".", 1)[-1] for name in names])
    else:
        table = read_csv_sample(path, encoding) if kind == "csv" else read_tsv_sample(path, encoding)
        rows = [list(row) for row in table.rows if len(row) == table.width]
        names = [name.strip() for name in rows[0]] if rows else []
        sides = find_pair_columns_by_name(names)
        rows = rows[sides is not None :]
    named = sides is not None
    if sides is None and len(names) == 2 and kind != "jsonl":
        sides = 0, 1
    columns = [[str(row[side]) for row in rows if isinstance(row[side], str)] for side in sides or ()]
    if sides is None or not all(columns):
        return None
    words = [mean_words(column) for column in columns]
    labels = repeats(columns[1]) and words[1] < SENTENCE
    names = [name.rsplit(".", 1)[-1] for name in names] if kind == "jsonl" else names
    return PairLayout(names[sides[0]], names[sides[1]], named, min(words) >= SENTENCE, labels)


def find_pair_columns(
    path: Path, options: Mapping[str, Any] | None = None, encoding: str | None = None
) -> PairLayout | None:
    """The two columns of a file that are pairs of sentences, or a context and a response.

    Args:
        path: a table or JSON lines.
        options: the detected columns of text and label, as options of a reader.
        encoding: UTF-8 if omitted.

    Returns:
        The columns, or None if they are a text and its label, or words.
    """
    told, label = recognize_pairs(path, encoding), (options or {}).get("label_column")
    if told is None or (told.labels and label is not None):
        return None
    if label not in (None, told.target) and not names_columns((told.source, told.target)):
        return None
    return told if told.responses or (told.sentences and (told.named or label is None)) else None


def csv_width(path: Path, encoding: str | None = None) -> int:
    """The number of columns of CSV if all rows have the same number, otherwise 1."""
    table = read_csv_sample(path, encoding)
    return table.width if len({len(row) for row in table.rows}) == 1 else 1


def tabs_are_quoted(path: Path, encoding: str | None = None) -> bool:
    """Whether the fields of a tab-separated table are quoted as in CSV."""
    return read_tsv_sample(path, encoding).quoted


def has_columns(path: Path, kind: PairKind, columns: PairColumns, encoding: str | None = None) -> bool:
    """Whether a file has the source column that is set."""
    if kind == "jsonl":
        return any(columns.source in _flat(thing) for _, thing in islice(objects(path, encoding), 1))
    table = read_tsv_sample(path, encoding) if kind == "tsv" else read_csv_sample(path, encoding)
    number = columns.source.isdecimal() and int(columns.source) <= table.width if columns.source else False
    return bool(table.rows) and (number or columns.source in [name.strip() for name in table.rows[0]])


def read_kind(
    path: Path, kind: PairKind, columns: PairColumns = FOUND, *, encoding: str | None = None, with_targets: bool = True
) -> tuple[str | None, Iterator[ParallelText]]:
    """Read the pairs of a file.

    Args:
        path: the file.
        kind: the layout. Plain lines are a tab-separated table.
        columns: the columns that are set.
        encoding: UTF-8 if omitted.
        with_targets: False allows files without targets.

    Returns:
        A sentence about the column names, if any, and the pairs, including blank ones.
    """
    if kind == "jsonl":
        return _read_objects(path, columns, encoding, with_targets)
    table = read_csv_sample(path, encoding) if kind == "csv" else read_tsv_sample(path, encoding)
    return _read_table(path, table, columns, encoding, with_targets)


# --- tables -----------------------------------------------------------------------------------------------------------


def read_tsv_sample(path: Path, encoding: str | None) -> Table:
    """A sample of tab-separated lines, with CSV quotes if fields are quoted."""
    plain = _sample(path, "\t", False, encoding)
    quoted = _sample(path, "\t", True, encoding)
    spans = len({len(row) for row in plain}) > 1 and len({len(row) for row in quoted}) == 1 and len(quoted) > 1
    return Table("\t", True, quoted) if quoted and (spans or is_quoted(plain)) else Table("\t", False, plain)


def read_csv_sample(path: Path, encoding: str | None) -> Table:
    """A sample of CSV with the delimiter that splits most records into the same number of fields, two or more.

    Ties are broken in favor of two fields.
    """

    def fitting(table: Table) -> tuple[int, bool]:
        width = table.width
        return (sum(len(row) == width for row in table.rows) if width > 1 else 0), width == 2

    return max((Table(one, True, _sample(path, one, True, encoding)) for one in _DELIMITERS), key=fitting)


def _sample(path: Path, delimiter: str, quoted: bool, encoding: str | None) -> list[list[str]]:
    """The first records that are not blank, up to one with invalid quotes."""
    found: list[list[str]] = []
    try:
        for _, fields in islice(records(path, delimiter, quoted, encoding), _SAMPLE):
            if any(field.strip() for field in fields):
                found.append(fields)
    except FormatError:
        pass
    return found


def _read_table(
    path: Path, table: Table, columns: PairColumns, encoding: str | None, with_targets: bool
) -> tuple[str | None, Iterator[ParallelText]]:
    names = [name.strip() for name in table.rows[0]] if table.rows else []
    width = table.width
    least = 2 if with_targets or columns.named or width > 1 else 1
    rows = _even(path, table, max(width, least), encoding)
    sides = _sides(path, names, width, columns, with_targets)
    if isinstance(sides, _Named):
        first = next((row for row in rows if any(field.strip() for field in row[1])), None)
        said = None if first is None else f"{first[0]} is a header ({sides.told(names)}), not a pair"
        return said, _picked(rows, sides.source, sides.target)
    if len(sides) == 1:
        return None, _picked(rows, sides[0], None)
    header, rest = part_header(rows, lambda row: [row[1][side].strip() for side in sides])
    if header is None:
        return None, _picked(rest, *sides)
    own = [header[1][side].strip() for side in sides]
    source, target = (sides[side] for side in find_pair_columns_by_name(own) or (0, 1)) if not columns.named else sides
    named = _Named(source, target)
    return f"{header[0]} is a header ({named.told(header[1])}), not a pair", _picked(rest, source, target)


@dataclass(frozen=True)
class _Named:
    """Two columns named by the first row."""

    source: int
    target: int | None

    def told(self, names: Sequence[str]) -> str:
        return ", ".join(names[side].strip() for side in (self.source, self.target) if side is not None)


def _sides(
    path: Path, names: Sequence[str], width: int, columns: PairColumns, with_targets: bool
) -> _Named | tuple[int, ...]:
    """The source and target columns: by the names in the first row, by number, or as the only two columns.

    In the last two cases the first row may be a pair.
    """
    if columns.named:
        asked = _asked(columns, names, with_targets)
        if all(name in names for name in asked):
            return _Named(names.index(asked[0]), names.index(asked[1]) if len(asked) > 1 else None)
        for name in asked:
            if not (name.isdecimal() and 1 <= int(name) <= width):
                raise FormatError(
                    f"{path} has no column {name!r}: {did_you_mean(name, names)}. If the first row has no names, use "
                    f"column numbers from 1 to {width}."
                )
        return tuple(int(name) - 1 for name in asked)
    if width <= 2:
        return (0,) if width == 1 and not with_targets else (0, 1)
    if (found := find_pair_columns_by_name(names)) is not None:
        return _Named(*found)
    raise FormatError(
        f"{path} has {width} columns, and their names do not show which two are the pairs: they begin with "
        f"{list_names(names)}. Set them by name, as in --source-column {_word(names[0])} --target-column "
        f"{_word(names[1])}, or by number: --source-column 1 --target-column 2."
    )


def _asked(columns: PairColumns, names: Sequence[str], with_targets: bool) -> list[str]:
    """The columns that are set, without the target column if it is optional and missing."""
    asked = [name for name in (columns.source, columns.target) if name is not None]
    return asked if with_targets or asked[-1] in names or asked[-1].isdecimal() else asked[:1]


def _word(name: str) -> str:
    return name if name.isidentifier() else "NAME"


def _even(path: Path, table: Table, width: int, encoding: str | None) -> Iterator[tuple[SourceLocation, list[str]]]:
    """The records. Raise FormatError for one that is not as wide as most of the first records."""
    for place, fields in records(path, table.delimiter, table.quoted, encoding):
        if not any(field.strip() for field in fields):
            fields = [""] * width
        if len(fields) != width:
            parted = "tabs" if table.delimiter == "\t" else repr(table.delimiter)
            problem = f"must have {width} fields separated by {parted}, got {len(fields)}"
            mark = "a tab" if table.delimiter == "\t" else repr(table.delimiter)
            cure = f"Put a text with {mark} in double quotes"
            cure += f', as in "Yes{table.delimiter} please.", and ' if table.delimiter != "\t" else ", and "
            cure += "pairs in two columns, source and target." if width == 2 else "fill in all columns of every row."
            raise bad_line(path, place.line, table.delimiter.join(fields), problem, cure)
        yield place, fields


def _picked(
    rows: Iterator[tuple[SourceLocation, list[str]]], source: int, target: int | None = None
) -> Iterator[ParallelText]:
    for place, fields in rows:
        other = "" if target is None else fields[target]
        yield ParallelText(" ".join(fields[source].split()), " ".join(other.split()), place)


# --- JSON lines -------------------------------------------------------------------------------------------------------


def _read_objects(
    path: Path, columns: PairColumns, encoding: str | None, with_targets: bool
) -> tuple[str | None, Iterator[ParallelText]]:
    things = objects(path, encoding)
    first = next(things, None)
    if first is None:
        return None, iter(())
    keys = _keys(path, list(_flat(first[1])), columns, with_targets)
    pairs = (_pair(place, thing, keys) for place, thing in chain([first], things))
    return f"{path} has its pairs as {' and '.join(map(repr, keys))}", pairs


def _keys(path: Path, names: Sequence[str], columns: PairColumns, with_targets: bool) -> list[str]:
    """The keys of sources and targets, or only of sources if targets are optional and missing."""
    if columns.named:
        asked = _asked(columns, names, with_targets)
        for name in asked:
            if name not in names:
                raise FormatError(f"{path} has no key {name!r}: {did_you_mean(name, names)}")
        return asked
    last = [name.rsplit(".", 1)[-1] for name in names]
    if (found := find_pair_columns_by_name(last)) is not None:
        return [names[side] for side in found]
    alone = find_name(names, ("source", "src", *TEXT_NAMES)) or (names[0] if len(names) == 1 else None)
    if not with_targets and alone is not None:
        return [alone]
    raise FormatError(
        f"The keys of the objects in {path} do not show which two are the pairs: {list_names(names)}. Set them by "
        f"--source-column KEY --target-column KEY."
    )


def _pair(place: SourceLocation, thing: Mapping[str, Any], keys: Sequence[str]) -> ParallelText:
    flat, texts = _flat(thing), []
    for key in keys:
        if key not in flat:
            cure = "Give every object the keys of the first."
            raise bad_line(
                place.file, place.line, json.dumps(thing), f"has no key {key!r}, only {list_names(flat)}", cure
            )
        try:
            texts.append("" if flat[key] is None else " ".join(whole_text(flat[key]).split()))
        except ValueError as error:
            raise bad_line(
                place.file, place.line, json.dumps(thing), f"has a key {key!r} that {error}", "Make it a string."
            ) from None
    return ParallelText(texts[0], texts[1] if len(texts) > 1 else "", place)


def _flat(thing: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an object, with dotted keys for nested objects."""
    found: dict[str, Any] = {}
    for key, value in thing.items():
        found |= {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, dict) else {key: value}
    return found
