"""Rows of tables, however they are stored, with the problems that a file may have in the form of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.readers.delimited import Fields, TableLayout, is_row_count

EMPTY = "empty"
"""Reason for dropping a record without any value."""
NO_RECORDS = ("above the header", "comments", "repeated header", "row count of psql")
"""Reasons for dropping rows that are not records."""


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
        short: for a record with too few fields, the reason to drop it if a value that is needed is missing.
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
