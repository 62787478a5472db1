"""Pairs of texts in tables of any width and in JSON lines: which columns hold them, and reading them.

A table is CSV, or lines with tabs between fields, in quotes where they are those of CSV. Its columns are named by its
first row, or counted from 1; those of JSON lines are the keys of an object, a dot before the keys of an object inside.
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
"""What may stand between the columns of CSV."""
_SAMPLE = 200
"""Records that are looked at."""
PairKind = Literal["lines", "tsv", "csv", "jsonl"]


FOUND = PairColumns()


@dataclass(frozen=True)
class Table:
    """The columns of a table: what parts them, and its first records."""

    delimiter: str
    quoted: bool
    rows: Sequence[Sequence[str]]

    @property
    def width(self) -> int:
        """The number of fields that most records have."""
        counted = Counter(len(row) for row in self.rows if any(field.strip() for field in row))
        return counted.most_common(1)[0][0] if counted else 0


def pair_layout(path: Path, encoding: str | None = None, columns: PairColumns = FOUND) -> PairKind:
    """How a file of pairs is written: JSON lines, CSV by its name, a table with tabs where there are more than two
    columns, quotes as in CSV or columns that a person names; else plain lines of source<TAB>target."""
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
    """Two columns of a table or two keys of objects that hold pairs, as far as the first of them tell."""

    source: str
    target: str
    """What the columns are called, or their first texts where none has a name."""
    named: bool
    """Whether it is by their names that they are known."""
    sentences: bool
    """Whether both hold sentences, rather than words."""
    labels: bool
    """Whether the targets repeat as labels do, and are no sentences."""

    @property
    def responses(self) -> bool:
        """Whether they are called as contexts and responses are."""
        return self.named and are_responses(self.source, self.target)


def recognize_pairs(path: Path, encoding: str | None = None) -> PairLayout | None:
    """The two columns of a file that are pairs, by their names, or as the only two; None where there are none such."""
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
    """The two columns of a file that are pairs of sentences, or something said and what is said to it; None where they
    are a text and its label, or words.

    Args:
        path: a table or JSON lines.
        options: the columns of text and label that were recognized, as a reader takes them.
        encoding: UTF-8 if omitted.
    """
    told, label = recognize_pairs(path, encoding), (options or {}).get("label_column")
    if told is None or (told.labels and label is not None):
        return None
    if label not in (None, told.target) and not names_columns((told.source, told.target)):
        return None
    return told if told.responses or (told.sentences and (told.named or label is None)) else None


def csv_width(path: Path, encoding: str | None = None) -> int:
    """How many columns CSV has, where all rows have as many; else 1."""
    table = read_csv_sample(path, encoding)
    return table.width if len({len(row) for row in table.rows}) == 1 else 1


def tabs_are_quoted(path: Path, encoding: str | None = None) -> bool:
    """Whether the fields of a table with tabs stand in quotes as in CSV."""
    return read_tsv_sample(path, encoding).quoted


def has_columns(path: Path, kind: PairKind, columns: PairColumns, encoding: str | None = None) -> bool:
    """Whether a file has the column of sources that is asked for."""
    if kind == "jsonl":
        return any(columns.source in _flat(thing) for _, thing in islice(objects(path, encoding), 1))
    table = read_tsv_sample(path, encoding) if kind == "tsv" else read_csv_sample(path, encoding)
    number = columns.source.isdecimal() and int(columns.source) <= table.width if columns.source else False
    return bool(table.rows) and (number or columns.source in [name.strip() for name in table.rows[0]])


def read_kind(
    path: Path, kind: PairKind, columns: PairColumns = FOUND, *, encoding: str | None = None, with_targets: bool = True
) -> tuple[str | None, Iterator[ParallelText]]:
    """A word on the columns of a file, where their names are told, and its pairs, blank ones too.

    Args:
        path: the file.
        kind: how it is written; plain lines are a table with tabs.
        columns: those that are asked for.
        encoding: UTF-8 if omitted.
        with_targets: False will do without targets, where a file has none.
    """
    if kind == "jsonl":
        return _read_objects(path, columns, encoding, with_targets)
    table = read_csv_sample(path, encoding) if kind == "csv" else read_tsv_sample(path, encoding)
    return _read_table(path, table, columns, encoding, with_targets)


# --- tables -----------------------------------------------------------------------------------------------------------


def read_tsv_sample(path: Path, encoding: str | None) -> Table:
    """Lines with tabs between fields, in quotes where they are those of CSV."""
    plain = _sample(path, "\t", False, encoding)
    quoted = _sample(path, "\t", True, encoding)
    spans = len({len(row) for row in plain}) > 1 and len({len(row) for row in quoted}) == 1 and len(quoted) > 1
    return Table("\t", True, quoted) if quoted and (spans or is_quoted(plain)) else Table("\t", False, plain)


def read_csv_sample(path: Path, encoding: str | None) -> Table:
    """CSV with the delimiter that parts most records into as many fields, of two or more; of equals into two."""

    def fitting(table: Table) -> tuple[int, bool]:
        width = table.width
        return (sum(len(row) == width for row in table.rows) if width > 1 else 0), width == 2

    return max((Table(one, True, _sample(path, one, True, encoding)) for one in _DELIMITERS), key=fitting)


def _sample(path: Path, delimiter: str, quoted: bool, encoding: str | None) -> list[list[str]]:
    """The first records that are not blank; none after one that is not well quoted."""
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
        said = None if first is None else f"{first[0]} names the columns ({sides.told(names)}) and is no pair"
        return said, _picked(rows, sides.source, sides.target)
    if len(sides) == 1:
        return None, _picked(rows, sides[0], None)
    header, rest = part_header(rows, lambda row: [row[1][side].strip() for side in sides])
    if header is None:
        return None, _picked(rest, *sides)
    own = [header[1][side].strip() for side in sides]
    source, target = (sides[side] for side in find_pair_columns_by_name(own) or (0, 1)) if not columns.named else sides
    named = _Named(source, target)
    return f"{header[0]} names the columns ({named.told(header[1])}) and is no pair", _picked(rest, source, target)


@dataclass(frozen=True)
class _Named:
    """Two columns that the first row names."""

    source: int
    target: int | None

    def told(self, names: Sequence[str]) -> str:
        return ", ".join(names[side].strip() for side in (self.source, self.target) if side is not None)


def _sides(
    path: Path, names: Sequence[str], width: int, columns: PairColumns, with_targets: bool
) -> _Named | tuple[int, ...]:
    """Where sources and targets stand: by the names of the first row, or by numbers or as the only two, where the first
    row may be a pair."""
    if columns.named:
        asked = _asked(columns, names, with_targets)
        if all(name in names for name in asked):
            return _Named(names.index(asked[0]), names.index(asked[1]) if len(asked) > 1 else None)
        for name in asked:
            if not (name.isdecimal() and 1 <= int(name) <= width):
                raise FormatError(
                    f"{path} has no column {name!r}: {did_you_mean(name, names)}. Where the first row names none, "
                    f"columns are counted: 1 to {width}"
                )
        return tuple(int(name) - 1 for name in asked)
    if width <= 2:
        return (0,) if width == 1 and not with_targets else (0, 1)
    if (found := find_pair_columns_by_name(names)) is not None:
        return _Named(*found)
    raise FormatError(
        f"{path} has {width} columns, and their names do not tell which two are the pairs: they begin with "
        f"{list_names(names)}. Name them, as in --source-column {_word(names[0])} --target-column {_word(names[1])}, "
        f"or by "
        f"their numbers: --source-column 1 --target-column 2"
    )


def _asked(columns: PairColumns, names: Sequence[str], with_targets: bool) -> list[str]:
    """The columns that are asked for; without that of targets where it may be missing, and is."""
    asked = [name for name in (columns.source, columns.target) if name is not None]
    return asked if with_targets or asked[-1] in names or asked[-1].isdecimal() else asked[:1]


def _word(name: str) -> str:
    return name if name.isidentifier() else "NAME"


def _even(path: Path, table: Table, width: int, encoding: str | None) -> Iterator[tuple[SourceLocation, list[str]]]:
    """The records, each as wide as most of the first ones, or an error that names the line."""
    for place, fields in records(path, table.delimiter, table.quoted, encoding):
        if not any(field.strip() for field in fields):
            fields = [""] * width
        if len(fields) != width:
            parted = "tabs" if table.delimiter == "\t" else repr(table.delimiter)
            problem = f"has {len(fields)} field{'s' * (len(fields) > 1)} between {parted}, not {width}"
            mark = "a tab" if table.delimiter == "\t" else repr(table.delimiter)
            cure = f"A text with {mark} in it must stand in double quotes"
            cure += f', as in "Yes{table.delimiter} please.", and ' if table.delimiter != "\t" else ", and "
            cure += "pairs in two columns: sources and targets." if width == 2 else "every row have all columns."
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
    """The keys of sources and targets; of sources alone where that is enough, and all there is."""
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
        f"{path} has objects whose keys do not tell which two are the pairs: {list_names(names)}. Name them, as in "
        f"--source-column KEY --target-column KEY"
    )


def _pair(place: SourceLocation, thing: Mapping[str, Any], keys: Sequence[str]) -> ParallelText:
    flat, texts = _flat(thing), []
    for key in keys:
        if key not in flat:
            cure = "Every object must have the keys of the first."
            raise bad_line(
                place.file, place.line, json.dumps(thing), f"has no key {key!r}, but {list_names(flat)}", cure
            )
        try:
            texts.append("" if flat[key] is None else " ".join(whole_text(flat[key]).split()))
        except ValueError as error:
            raise bad_line(
                place.file, place.line, json.dumps(thing), f"has a key {key!r} that {error}", "It must be a text."
            ) from None
    return ParallelText(texts[0], texts[1] if len(texts) > 1 else "", place)


def _flat(thing: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an object, those of objects inside by keys with a dot."""
    found: dict[str, Any] = {}
    for key, value in thing.items():
        found |= {f"{key}.{inner}": one for inner, one in value.items()} if isinstance(value, dict) else {key: value}
    return found
