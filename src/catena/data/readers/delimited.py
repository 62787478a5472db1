"""Records of tables in text lines: CSV in its dialects, TSV, tables of R, psql and MySQL, pairs separated by ``|||``.

A record with quotes may span several lines. A quote that is never closed would swallow the rest of the file: its line
is read again with plain quotes, and reading continues in the next line. :class:`Row` is a record of
any table, however it is stored, with the problems that its form may have.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from catena.data.examples import SourceLocation

MAX_RECORD_LINES = 10_000
"""Maximum number of lines of a record."""
MAX_OPEN_QUOTES = 50
"""Number of quotes that are never closed after which records end at the end of their line."""
csv.field_size_limit(2**31 - 1)  # the default limit of the csv module is 128 KiB per field

_RULE = re.compile(r"[\s|+:=-]*--[\s|+:=-]*")
"""A line between the header and the rows of a table for readers: ``+------+---+`` or ``|---|---|``."""
_ROW_COUNT = re.compile(r"\(\d+ rows?\)")
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\b": "\b"}
OPEN_QUOTE = "records with a quote that is not closed, read as a character"


@dataclass(frozen=True)
class TableLayout:
    r"""How the records of a table are written.

    Args:
        delimiter: the text between fields, one character or more.
        quote: the character around fields that contain a delimiter or line end; None if quotes are plain characters.
        escape: the character before a quote inside a quoted field, if quotes are not doubled.
        names: the column names; numbers from 1 for columns without a name.
        header: the line of the header; None if there is none.
        start: the first line that may be a record. Lines above it are titles and comments.
        boxed: whether fields are padded with blanks and lines may begin and end with the delimiter.
        database: whether tabs and line ends inside fields are written as ``\t`` and ``\n``, as databases do.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    names: tuple[str, ...] = ()
    header: int | None = 1
    start: int = 1
    boxed: bool = False
    database: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "names": list(self.names)}


class Fields(NamedTuple):
    """The fields of one record, which is blank if there are none."""

    line: int
    values: list[str]
    raw: str
    problem: str | None = None
    """Why the record cannot be used, such as "with a NUL byte"."""
    note: str | None = None
    """How the record was read, if it is unusual."""


def split_records(lines: Iterable[tuple[int, str]], layout: TableLayout, width: int | None = None) -> Iterator[Fields]:
    """The records of numbered lines, including blank ones.

    Args:
        lines: line numbers and lines.
        layout: how records are written. Its names, header and start are not used.
        width: the usual number of fields. Records of several lines with another number have a quote too many.
    """
    if layout.boxed:
        lines = ((number, line) for number, line in lines if not _RULE.fullmatch(line))
    if layout.quote is None:
        for number, line in lines:
            yield Fields(number, _split_line(line, layout), line, "with a NUL byte" if "\0" in line else None)
    else:
        yield from _quoted_records(lines, layout, width)


def _split_line(line: str, layout: TableLayout) -> list[str]:
    if not line.strip():
        return []
    if layout.boxed:
        line = line.strip().removeprefix(layout.delimiter).removesuffix(layout.delimiter)
    values = line.split(layout.delimiter)
    if layout.boxed or len(layout.delimiter) > 1:
        return [value.strip() for value in values]
    return [unescape(value) for value in values] if layout.database else values


def unescape(value: str) -> str:
    r"""A field of PostgreSQL's COPY or MySQL without escapes. ``\N``, which is NULL, stays as it is."""
    if "\\" not in value or value == "\\N":
        return value
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0][1:]), value, flags=re.DOTALL)


def is_row_count(values: Sequence[str]) -> bool:
    """Whether a record is the last line of psql, ``(60 rows)``."""
    return len(values) == 1 and _ROW_COUNT.fullmatch(values[0].strip()) is not None


class LineSource:
    """An iterator over numbered lines, which can be given lines to read again."""

    def __init__(self, lines: Iterable[tuple[int, str]]) -> None:
        self._lines = iter(lines)
        self._again: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        return self._again.popleft() if self._again else next(self._lines)

    def read_again(self, lines: Sequence[tuple[int, str]]) -> None:
        self._again.extendleft(reversed(lines))


def _quoted_records(lines: Iterable[tuple[int, str]], layout: TableLayout, width: int | None) -> Iterator[Fields]:
    source, open_quotes = LineSource(lines), 0
    assert layout.quote is not None
    for number, line in source:
        if "\0" in line:
            yield Fields(number, [], line, "with a NUL byte")
        elif layout.quote not in line and (layout.escape is None or layout.escape not in line):
            yield Fields(number, _split_line(line, layout), line)
        else:
            most = MAX_RECORD_LINES if open_quotes < MAX_OPEN_QUOTES else 1
            record = _quoted_record((number, line), source, layout, width, most)
            open_quotes += record.note is not None
            yield record


def _quoted_record(
    first: tuple[int, str], source: LineSource, layout: TableLayout, width: int | None, most: int
) -> Fields:
    taken = [first]

    def feed() -> Iterator[str]:
        yield first[1] + "\n"
        for line in source:
            if len(taken) == most or "\0" in line[1]:
                source.read_again([line])
                return
            taken.append(line)
            yield line[1] + "\n"

    rows = csv.reader(
        feed(),
        delimiter=layout.delimiter,
        quotechar=layout.quote,
        escapechar=layout.escape,
        doublequote=layout.escape is None,
        skipinitialspace=True,
        strict=True,
    )
    try:
        values = next(rows, [])
        if len(taken) == 1 or width is None or len(values) == width:
            raw = "\n".join(line for _, line in taken)
            return Fields(first[0], values, raw)
    except csv.Error:
        pass
    source.read_again(taken[1:])
    return Fields(first[0], first[1].split(layout.delimiter), first[1], note=OPEN_QUOTE)


# --- rows -------------------------------------------------------------------------------------------------------------


EMPTY = "empty"
"""Reason for dropping a record without any value."""
REJECTED = "rejected or ignored in Prodigy"
NOT_ANNOTATED = "without an annotation"
TOTALS = "row of totals"
NO_RECORDS = ("above the header", "comments", "repeated header", "row count of psql", REJECTED, TOTALS)
"""Reasons for dropping rows that are not records, also where every record has an output."""
_TOTALS = frozenset(("total", "totals", "grand total", "sum", "count", "average", "mean", "summe", "gesamt"))
_NUMBER = re.compile(r"[-+]?[\d.,]+ ?%?")


@dataclass(slots=True)  # not frozen, which would make it three times as slow to create
class Row:
    """One record of a table.

    Args:
        location: the source location.
        values: the values by column. Missing columns have no entry.
        raw: the record as it is in the file, for lists of dropped records.
        problem: the reason why the record cannot be used, which completes "11 …", or None.
        damaged: whether the problem is in the form of the record rather than in its values.
        note: what was read in an unusual way, which completes "1 …", or None.
        short: for a record with too few fields or without an annotation, the reason to drop it if a value that is
            needed is missing.
    """

    location: SourceLocation
    values: Mapping[str, Any]
    raw: str
    problem: str | None = None
    damaged: bool = False
    note: str | None = None
    short: str | None = None


def to_rows(records: Iterable[Fields], layout: TableLayout, file: str, wide: str | None = None) -> Iterator[Row]:
    """The rows of records, without the header.

    Args:
        records: the records of a table.
        layout: its names, header and first record.
        file: the file, for locations.
        wide: the column that may contain the delimiter, so that it takes the surplus fields of a record.
    """
    last: Row | None = None
    for row in _rows(records, layout, file, wide):
        if last is not None:
            yield last
        last = row
    if last is not None:
        if last.problem is None and _has_totals(list(last.values.values())):
            last = Row(last.location, {}, last.raw, TOTALS)
        yield last


def _rows(records: Iterable[Fields], layout: TableLayout, file: str, wide: str | None) -> Iterator[Row]:
    names, width = layout.names, len(layout.names)
    at = names.index(wide) if wide is not None else None
    for record in records:
        if record.line == layout.header:
            continue
        location = SourceLocation(file, record.line)
        if _is_plain(record, layout):
            yield Row(location, dict(zip(names, record.values, strict=True)), record.raw, note=record.note)
            continue
        values = list(record.values)
        if problem := _problem(record, values, layout):
            yield Row(location, {}, record.raw, problem, damaged=record.problem is not None, note=record.note)
            continue
        while len(values) > width and not values[-1].strip():
            values.pop()
        surplus = len(values) - width
        if surplus > 0 and at is not None:
            values[at : at + surplus + 1] = [layout.delimiter.join(values[at : at + surplus + 1])]
            surplus = 0
        if surplus > 0:
            problem = f"with {len(values)} fields instead of {width}"
            yield Row(location, {}, record.raw, problem, damaged=True, note=record.note)
            continue
        fields = "1 field" if len(values) == 1 else f"{len(values)} fields"
        short = f"with {fields} instead of {width}" if surplus < 0 else None
        yield Row(location, dict(zip(names, values, strict=False)), record.raw, note=record.note, short=short)


def _has_totals(values: Sequence[str]) -> bool:
    """Whether the last record of a table is a row of totals, as spreadsheets have it: ``Total,80``."""
    cells = [value.strip() for value in values if value.strip()]
    if len(cells) < 2 or cells[0].rstrip(":").casefold() not in _TOTALS:
        return False
    return all(_NUMBER.fullmatch(cell) is not None for cell in cells[1:])


def _is_plain(record: Fields, layout: TableLayout) -> bool:
    """Whether a record has one value for each of several columns and none of the problems that a record may have."""
    values = record.values
    if record.problem is not None or not len(values) == len(layout.names) > 1 or record.line < layout.start:
        return False
    first = values[0].strip()
    return bool(first) and (layout.header is None or (record.line > layout.header and first != layout.names[0]))


def _problem(record: Fields, values: Sequence[str], layout: TableLayout) -> str | None:
    if record.problem is not None:
        return record.problem
    if layout.header is not None and record.line < layout.header:
        return NO_RECORDS[0]
    if not any(value.strip() for value in values):
        return EMPTY
    if record.line < layout.start:
        return NO_RECORDS[1]
    if layout.header is not None and [value.strip() for value in values] == list(layout.names):
        return NO_RECORDS[2]
    if is_row_count(values) and len(layout.names) > 1:
        return NO_RECORDS[3]
    return None


_SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?[ \r]*', re.IGNORECASE)


def named_delimiter(line: str) -> str | None:
    """The delimiter that a first line ``sep=;`` names, or None."""
    match = _SEPARATOR_LINE.fullmatch(line)
    return match[1] if match else None
