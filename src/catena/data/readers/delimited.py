"""CSV and TSV with a header, with a column for the text and one for the label.

Without a header, columns are named by their number, from 1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import LabeledText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import hint
from catena.data.readers.names import choose_columns, split_labels
from catena.data.readers.sample import list_names
from catena.data.readers.table_signs import csv_sign, tsv_sign
from catena.errors import FormatError

MOST_LINES = 10_000
"""Maximum number of lines of a record. Without it, a stray quote would consume the rest of the file."""


def read_csv(
    path: Path | str,
    *,
    delimiter: str = ",",
    header: bool = True,
    text_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
    labeled: bool = True,
    quoted: bool = True,
    encoding: str | None = None,
) -> Iterator[LabeledText]:
    """Yield one example for each record. A record without any value gives an example without text and label.

    Args:
        path: the file.
        delimiter: the character between fields.
        header: whether the first record has the column names; otherwise they are "1", "2", …
        text_column: detected by common names if omitted, such as text, sentence or review.
        label_column: detected by common names if omitted, such as label, intent or class.
        separator: separator of several labels in one field, such as "|". The field may then be empty.
        labeled: False reads only texts.
        quoted: whether fields may be in double quotes, with line ends and delimiters inside.
        encoding: UTF-8 if omitted.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise FormatError(
            f"delimiter must be one character other than a quote or line end, got {delimiter!r}. Use ',' or '\\t'."
        )
    names: list[str] | None = None
    for place, fields in records(path, delimiter, quoted, encoding):
        if not any(field.strip() for field in fields):
            yield LabeledText("", (), place)
            continue
        if names is None:
            names = fields if header else [str(j + 1) for j in range(len(fields))]
            names = [name.strip() for name in names]
            try:
                chosen = choose_columns(str(place), names, text_column, label_column, labeled)
            except FormatError as error:
                kind = "tsv" if delimiter == "\t" else "csv"
                raise type(error)(f"{error}. {hint(path, kind)}".rstrip()) from None
            text_at = names.index(chosen.text)
            label_at = names.index(chosen.label) if chosen.label is not None else None
            if header:
                continue
        if len(fields) != len(names):
            raise _ragged(place, fields, names, delimiter)
        labels = split_labels(fields[label_at], separator) if label_at is not None else ()
        if label_at is not None and not labels and not separator:
            cure = "Fill it in, or remove the record. If texts may have no label, set a separator (--label-separator)."
            raise bad_line(place.file, place.line, delimiter.join(fields), f"has no {names[label_at]}", cure)
        yield LabeledText(fields[text_at], labels, place)


def read_tsv(
    path: Path | str,
    *,
    header: bool = True,
    text_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
    labeled: bool = True,
    quoted: bool = False,
    encoding: str | None = None,
) -> Iterator[LabeledText]:
    """As :func:`read_csv`, with tabs between fields. Quotes are plain characters unless ``quoted``."""
    yield from read_csv(
        path,
        delimiter="\t",
        header=header,
        text_column=text_column,
        label_column=label_column,
        separator=separator,
        labeled=labeled,
        quoted=quoted,
        encoding=encoding,
    )


def records(
    path: Path | str, delimiter: str, quoted: bool, encoding: str | None
) -> Iterator[tuple[SourceLocation, list[str]]]:
    """The fields of each record, and the line in which it begins."""
    csv.field_size_limit(2**31 - 1)  # the default limit of the csv module is 128 KiB per field
    with open_text(path, encoding) as lines:
        source = _Source(str(path), lines)
        if quoted:
            rows = csv.reader(source, delimiter=delimiter, strict=True)
        else:
            rows = csv.reader(source, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
        while True:
            source.begin = source.number + 1
            try:
                fields = next(rows, None)
            except csv.Error as error:
                problem = f"begins a record with invalid quotes ({error}, at line {source.number})"
                cure = "Double a quote inside a quoted field. " + hint(path, "tsv" if delimiter == "\t" else "csv")
                raise bad_line(path, source.begin, source.first, problem, cure) from None
            if fields is None:
                return
            yield SourceLocation(str(path), source.begin), fields


class _Source:
    """Lines for the csv module that remember where the record began."""

    def __init__(self, file: str, lines: Iterator[tuple[int, str]]) -> None:
        self.file = file
        self.lines = lines
        self.number = 0
        self.begin = 1
        self.first = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line = next(self.lines)
        if self.number == self.begin:
            self.first = line
        if self.number - self.begin >= MOST_LINES:
            problem = f"opens a quote that is not closed within {MOST_LINES:,} lines"
            cure = "Double or remove the quote, or read the file with quoted=false."
            raise bad_line(self.file, self.begin, self.first, problem, cure)
        return line + "\n"


def _ragged(place: SourceLocation, fields: list[str], names: list[str], delimiter: str) -> FormatError:
    name = "tsv" if delimiter == "\t" else "csv"
    return bad_line(
        place.file,
        place.line,
        delimiter.join(fields),
        f"must have {len(names)} fields ({list_names(names)}) as in the first record, got {len(fields)}",
        f"Quote texts with a {'tab' if delimiter == chr(9) else repr(delimiter)} inside. {hint(place.file, name)}",
    )


CSV = Format("csv", "CSV with a header", LabeledText, read_csv, csv_sign)
TSV = Format("tsv", "TSV with a header", LabeledText, read_tsv, tsv_sign)
