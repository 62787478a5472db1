"""Tables of any storage as rows with named columns: CSV, JSON, Excel, Parquet, folders, and records in lines.

Tested in tests/data/test_detect.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from catena.data.files import open_text
from catena.data.media_files import read_folders
from catena.data.readers import dialogue_lines, line_records, objects, rasa, xml_tables
from catena.data.readers.arrow import ArrowTable
from catena.data.readers.delimited import Row, TableLayout, named_delimiter, split_records, to_rows
from catena.data.readers.layout import TableCandidate, find_layout, with_header

SAMPLE_ROWS = 2000
"""Number of records from which the columns of roles are chosen."""
LINE_FORMATS = ("text", "first-word", "fasttext", "dictionary")
TABLE_FORMATS = ("csv", "tsv", "json", "jsonl", "xlsx", "parquet", "datasets")
"""Formats whose columns have names, or numbers if there is no header."""
RECORD_FORMATS = (*TABLE_FORMATS, *LINE_FORMATS, "folders", "tmx", "dialogue", "rasa")
"""Formats whose records have roles, unlike trees and sentences of tokens."""


_FIXED_NAMES = {
    "text": ("text",),
    "first-word": ("label", "text"),
    "fasttext": ("label", "text"),
    "dictionary": ("source", "target"),
    "dialogue": ("turns", "speakers"),
    "rasa": ("text", "intent"),
    "folders": ("text", "label", "file"),
}
"""The columns of formats that always have the same ones."""


@dataclass(frozen=True, eq=False)
class Table:
    """A file as rows.

    Args:
        path: the file.
        names: the columns, in order; numbers from 1 if there is no header.
        has_header: whether the columns have names.
        sample: the values of the first usable records.
        rows: yields all rows. Its argument is the column that takes surplus fields, or None.
        class_names: the names of the numbered classes of a column.
    """

    path: Path
    names: tuple[str, ...]
    has_header: bool
    sample: Sequence[Mapping[str, Any]]
    rows: Callable[[str | None], Iterator[Row]]
    class_names: Callable[[str], tuple[str, ...]] = lambda column: ()
    layout: TableLayout | None = None


def open_table(path: Path, format: str, options: Mapping[str, Any] | None = None, encoding: str | None = None) -> Table:
    """A file in one of :data:`RECORD_FORMATS` as a table.

    Args:
        path: the file.
        format: its format.
        options: the options that detection found, such as the layout, or that the user sets.
        encoding: UTF-8 if omitted.
    """
    options = options or {}
    if format in ("csv", "tsv"):
        return _delimited(path, format, options.get("layout"), encoding)
    if format == "xlsx":
        return _workbook(path)
    if format in ("parquet", "datasets"):
        arrow = ArrowTable(path, options.get("split"))
        return _of_rows(path, lambda wide: arrow.rows(), tuple(arrow.names), arrow.class_names)
    readers: dict[str, Callable[[], Iterator[Row]]] = {
        "json": lambda: objects.read_document(path, encoding),
        "jsonl": lambda: objects.read_lines(path, encoding),
        "tmx": lambda: xml_tables.read_tmx(path),
        "folders": lambda: read_folders(path, encoding),
        "dialogue": lambda: dialogue_lines.read(path, options.get("kind"), encoding),
        "rasa": lambda: rasa.read(path, encoding),
    }
    if format in readers:
        read = readers[format]
    else:
        own = {key: options[key] for key in ("numeric", "paragraphs") if key in options}
        read = lambda: line_records.read(path, format, encoding, **own)  # noqa: E731
    return _of_rows(path, lambda wide: read(), _FIXED_NAMES.get(format, ()))


def _of_rows(
    path: Path,
    rows: Callable[[str | None], Iterator[Row]],
    names: tuple[str, ...] = (),
    class_names: Callable[[str], tuple[str, ...]] = lambda column: (),
) -> Table:
    sample = _sample(rows(None))
    found = dict.fromkeys(name for values in sample for name in values)
    return Table(path, tuple(found) or names, True, sample, rows, class_names)


def _sample(rows: Iterator[Row]) -> list[Mapping[str, Any]]:
    return [row.values for row in islice(rows, SAMPLE_ROWS) if row.problem is None]


def _delimited(path: Path, format: str, layout: TableLayout | None, encoding: str | None) -> Table:
    if layout is None:
        with open_text(path, encoding, keep_nuls=True) as lines:
            head = list(islice(lines, SAMPLE_ROWS))
        candidate = find_layout(head, format, complete=len(head) < SAMPLE_ROWS)
        layout = candidate.layout if candidate else TableLayout("\t" if format == "tsv" else ",", header=None)
    kept = layout

    def rows(wide: str | None) -> Iterator[Row]:
        with open_text(path, encoding, keep_nuls=True) as lines:
            records = split_records(_from_header(lines, kept), kept, len(kept.names))
            yield from to_rows(records, kept, str(path), wide)

    return Table(path, layout.names, layout.header is not None, _sample(rows(None)), rows, layout=layout)


def _from_header(lines: Iterator[tuple[int, str]], layout: TableLayout) -> Iterator[tuple[int, str]]:
    """The lines without ``sep=;``, which is not a record."""
    for number, line in lines:
        if number > 1 or named_delimiter(line) is None:
            yield number, line


def _workbook(path: Path) -> Table:
    candidate = with_header(
        TableCandidate(TableLayout(), tuple(islice(xml_tables.read_records(path), SAMPLE_ROWS))), "csv"
    )
    unnamed = range(len(candidate.layout.names) + 1, candidate.width + 1)  # cells are not cut at commas
    layout = replace(candidate.layout, names=(*candidate.layout.names, *map(str, unnamed)))
    width = len(layout.names)

    def rows(wide: str | None) -> Iterator[Row]:
        records = xml_tables.read_records(path)  # without the empty cells at the end of a row
        padded = (record._replace(values=record.values + [""] * (width - len(record.values))) for record in records)
        yield from to_rows(padded, layout, str(path))

    return Table(path, layout.names, layout.header is not None, _sample(rows(None)), rows, layout=layout)
