"""Detection of the layout of a table in text lines: delimiter, quotes, header, and lines above the header.

Every candidate reads the sample; the one that gives most records the same number of fields wins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from catena.data.pairing import is_above_sentences
from catena.data.readers.delimited import Fields, TableLayout, named_delimiter, split_records
from catena.data.roles import MISSING, known_roles, may_name_pair, names_pair, names_texts_and_ids
from catena.data.values import SENTENCE, is_date, is_number, is_wordy, mean_words, strings

_Lines = Sequence[tuple[int, str]]

MAX_TITLE_LINES = 10
"""Maximum number of lines above a header."""
_LONG_NAME = 40
_FEW_ROWS = 5
"""Number of rows below which the type of a column shows little."""
_MANY_ROWS = 10
"""Number of records from which a table without a header and without quotes differs enough from texts with commas."""
_WIDE = (" ||| ", " ::: ")
"""Delimiters of several characters, which csv does not have."""
SEPARATORS = ("\x01", "\x1f", "\x1e")
"""Control characters that separate fields, as Hive and databases write them."""


@dataclass(frozen=True)
class TableCandidate:
    """A layout and the records that it makes of a sample."""

    layout: TableLayout
    records: tuple[Fields, ...]

    @property
    def filled(self) -> list[Fields]:
        """The records that are not blank."""
        return [record for record in self.records if any(value.strip() for value in record.values)]

    @property
    def width(self) -> int:
        """The number of fields of most records."""
        filled = self.filled
        counted = Counter(len(record.values) for record in filled)
        return max(counted, key=lambda width: (counted[width], width == len(filled[0].values)), default=0)

    @property
    def evenness(self) -> float:
        """The fraction of records that have the usual number of fields and closed quotes."""
        filled, width = self.filled, self.width
        even = sum(len(record.values) == width and record.note is None for record in filled)
        return even / len(filled) if filled else 0.0

    @cached_property
    def has_labels(self) -> bool:
        """Whether all records have the same number of fields, and one has few different words next to a text."""
        rows = [[value.strip() for value in record.values] for record in self.filled]
        if self.evenness < 1 or len(rows) < _MANY_ROWS:
            return False
        columns = list(zip(*rows, strict=True))
        labels = [own for own in columns if all(own) and not any(re.search(r"[\s,;|]", value) for value in own)]
        few = any(2 <= len(set(own)) <= 0.2 * len(own) and not is_date(own) for own in labels)
        return few and any(mean_words(own) >= SENTENCE for own in columns)


def find_layout(lines: _Lines, kind: str, complete: bool = True, named: Collection[str] = ()) -> TableCandidate | None:
    """The layout of the table that a sample of lines is, or None if there is no delimiter.

    Args:
        lines: the first lines of the file, with their numbers.
        kind: "csv" or "tsv" if the name or the user says so, otherwise "".
        complete: whether the sample ends with a complete record.
        named: column names that the user sets. A row that has them all is the header.
    """
    lines, delimiter = _without_separator_line(lines)
    found = [_parsed(lines, layout, complete) for layout in _layouts(lines, kind, delimiter)]
    found = [one for one in found if one.width > 1] or ([one for one in found if one.width] if kind else [])
    if not found:
        return None
    best = max(
        found,
        key=lambda one: (
            _find_named(one, named) is not None,
            one.evenness > 0.5,
            _has_known_names(one),
            round(one.evenness, 2),
            one.has_labels,
            not kind and one.layout.delimiter not in (",", ";"),  # which texts have too
        ),
    )
    return with_header(best, kind, named)


def _without_separator_line(lines: _Lines) -> tuple[_Lines, str | None]:
    """The lines without ``sep=;``, which Excel reads, and its delimiter."""
    delimiter = named_delimiter(lines[0][1]) if lines else None
    return (lines, None) if delimiter is None else (lines[1:], delimiter)


def _layouts(lines: _Lines, kind: str, delimiter: str | None) -> Iterator[TableLayout]:
    """The candidates that may fit, the most usual first."""
    text = "\n".join(line for _, line in lines)
    for wide in (wide.strip() for wide in _WIDE) if kind != "csv" else ():
        if any(wide in line for _, line in lines):
            yield TableLayout(wide, None)
    delimiters = [delimiter] if delimiter else _delimiters(text, kind)
    for one in delimiters:
        if one == "\t" and _quotes_matter(lines):
            yield TableLayout(one)
        if one == "\t":
            yield TableLayout(one, None, database=re.search(r"(?m)(^|\t)\\N(\t|$)", text) is not None)
        if one == "|" and re.search(r"(?m)^\s*[|+]?[-+|: ]*--[-+|: ]*$", text):
            yield TableLayout(one, None, boxed=True)
        if one != "\t":
            yield TableLayout(one)
        if '\\"' in text:
            yield TableLayout(one, escape="\\")
        if re.search(rf"(?m)(^|{re.escape(one)})'([^'\n]|'')*'({re.escape(one)}|$)", text):
            yield TableLayout(one, "'")
            yield TableLayout(one, "'", "\\")
    if kind != "tsv" and _is_quoted_by_blanks(lines):
        yield TableLayout(" ")
        yield TableLayout(" ", escape="\\")


def _delimiters(text: str, kind: str) -> list[str]:
    if kind == "tsv":
        return ["\t"] if "\t" in text else []
    found = [one for one in (",", ";", "|", "\t") if one in text]
    n_lines = text.count("\n") + 1
    found += [one for one in (*SEPARATORS, "^", "~") if text.count(one) >= 0.9 * n_lines]
    return found or ([","] if kind else [])


def _is_quoted_by_blanks(lines: _Lines) -> bool:
    """Whether fields in double quotes are separated by blanks, as write.table of R writes them."""
    filled = [line for _, line in lines if line.strip()]
    quoted = sum(re.match(r'"[^"]*"( |$)', line) is not None for line in filled)
    return len(filled) > 1 and quoted >= 0.9 * len(filled) and '" "' in filled[0]


def _quotes_matter(lines: _Lines) -> bool:
    """Whether quotes in tab-separated lines quote fields as in CSV: closed, and needed or around whole columns."""
    if not any('"' in line for _, line in lines):
        return False
    records = list(split_records(lines, TableLayout("\t")))
    quoted = [record for record in records if re.search(r'(^|\t)"', record.raw)]
    if not quoted or any(record.note for record in quoted):
        return any("\n" in record.raw for record in quoted) and sum(record.note is not None for record in quoted) <= 1
    needed = any('""' in record.raw or "\n" in record.raw for record in quoted)
    needed = needed or any("\t" in value for record in quoted for value in record.values)
    filled = [record for record in records if record.raw.strip()]
    return needed or len(quoted) >= 0.9 * len(filled) or all(part[:1] == '"' for part in filled[0].raw.split("\t"))


def _parsed(lines: _Lines, layout: TableLayout, complete: bool) -> TableCandidate:
    records = tuple(split_records(lines, layout))
    if not complete and len(records) > 2 and (records[-1].note or "\n" in records[-1].raw):
        records = records[:-1]  # the sample may end inside a quoted field
    width = TableCandidate(layout, records).width
    if layout.quote is not None and any(len(record.values) != width for record in records if "\n" in record.raw):
        records = tuple(split_records(lines, layout, width))
    return TableCandidate(layout, records)


def _has_known_names(one: TableCandidate) -> bool:
    return any(len(known_roles(_names(record))) > 1 for record in one.filled[:MAX_TITLE_LINES])


def _names(record: Fields) -> list[str]:
    return [value.strip().strip("\ufeff") for value in record.values]


# --- headers ----------------------------------------------------------------------------------------------------------


def with_header(found: TableCandidate, kind: str, named: Collection[str] = ()) -> TableCandidate:
    """The candidate with the names and the line of its header, if it has one."""
    filled, width = found.filled, found.width
    imported = _find_import_ids(found)
    at = _find_named(found, named)
    if at is None:
        at = 0 if imported is not None else _find_header(found, kind)
    if at is None:
        first = next((r.line for r in filled if len(r.values) == width or not r.raw.startswith("#")), 1)
        names = tuple(str(j + 1) for j in range(width))
        return TableCandidate(replace(found.layout, names=names, header=None, start=first), found.records)
    header = _names(filled[at])
    if len(header) == width - 1 and _begins_with_names([_names(one) for one in filled[at + 1 :]], width):
        header = ["", *header]  # R leaves out the name of the row names
    elif len(header) == width - 1 and _are_filled([one.values for one in filled[at + 1 :]], width):
        width = len(header)  # a delimiter in a text that is not quoted, so that its records are damaged
    header += [""] * (width - len(header))
    start = filled[at].line if imported is None else filled[imported].line + 1
    layout = replace(found.layout, names=_unique(header), header=filled[at].line, start=start)
    return TableCandidate(layout, found.records)


def _find_import_ids(found: TableCandidate) -> int | None:
    """The index of the row of import ids, which Qualtrics writes below the names and the texts of the questions."""
    rows = enumerate(found.filled[1:3], start=1)
    return next((at for at, record in rows if all(cell.startswith('{"ImportId"') for cell in record.values)), None)


def _begins_with_names(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first field of all rows identifies the row, and the last is not just an empty one."""
    full = [row for row in rows if len(row) == width]
    first = [row[0] for row in full]
    return any(row[-1] for row in full) and len(set(first)) == len(first) and mean_words(first) < 2


def _are_filled(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the last fields of records, which have no name, have values."""
    last = [row[-1] for row in rows if len(row) == width]
    return sum(map(bool, last)) > 0.5 * len(last)


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with numbers for empty ones and for repeated ones."""
    found: list[str] = []
    for number, name in enumerate(names, start=1):
        fresh = name or str(number)
        found.append(fresh if fresh not in found else f"{fresh}.{number}")
    return tuple(found)


def repeated_names(names: Sequence[str]) -> list[str | None]:
    """For each column, the name that an earlier column also has in the file, or None."""
    ends = (f".{number}" for number in range(1, len(names) + 1))
    bare = [name.removesuffix(end) if name.endswith(end) else "" for name, end in zip(names, ends, strict=True)]
    return [one if one in names[:i] else None for i, one in enumerate(bare)]


def _find_named(found: TableCandidate, named: Collection[str]) -> int | None:
    """The index of the first record that has all the names that the user sets."""
    wanted = {name.casefold() for name in named}
    rows = enumerate(found.filled[:MAX_TITLE_LINES])
    return (
        next((at for at, record in rows if wanted <= {name.casefold() for name in _names(record)}), None)
        if named
        else None
    )


def _find_header(found: TableCandidate, kind: str) -> int | None:
    """The index of the header among the records that are not blank."""
    filled, width = found.filled, found.width
    if not filled:
        return None
    rows = [_names(record) for record in filled]
    titles = next((at for at, row in enumerate(rows[:MAX_TITLE_LINES]) if sum(map(bool, row)) > 1), 0)
    if titles and known_roles(rows[titles]) and _is_header(rows[titles], rows[titles + 1 :], kind, width):
        return titles  # below rows with one filled cell, as spreadsheets write a title
    if _is_header(rows[0], rows[1:], kind, width):
        return 0
    for at, record in enumerate(filled[1:MAX_TITLE_LINES], start=1):
        above = filled[:at]
        if len(record.values) != width or len(known_roles(_names(record))) < 2:
            continue
        if any(len(one.values) != width for one in above) or filled[at].line > at + 1 + above[0].line:
            return at
    return None


def _is_header(header: Sequence[str], body: Sequence[Sequence[str]], kind: str, width: int) -> bool:
    """Whether a first row has the names of columns rather than values."""
    if _is_above_numbers_or_dates(header, body):
        return True
    if abs(len(header) - width) > 1 or any(len(name) > _LONG_NAME for name in header):
        return False
    if names_pair(header) or names_texts_and_ids(header):
        return True
    roles = known_roles(header)
    if may_name_pair(header) and not {"text", "label"} <= roles.keys():
        return is_above_sentences(header, body)
    if len(set(roles.values())) > 1 or (roles and body and len(header) == width and (kind or width > 2)):
        return not _occurs_below(header, body)
    if kind == "csv" or width > 2:
        return _is_unlike(header, body)
    return width == 2 and _names_text_and_label(header, body) and _is_unlike(header, body)


def _names_text_and_label(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether a first row of two fields has one word above texts, and above labels a value that is not below."""
    rows = [row for row in body if len(row) == 2]
    if len(rows) < 2 * _MANY_ROWS or not all(header) or any(mean_words([name]) > 1.5 for name in header):
        return False
    for text, label in ((0, 1), (1, 0)):
        texts, labels = [row[text] for row in rows], Counter(row[label] for row in rows)
        if min(map(len, texts)) > len(header[text]) and min(labels.values()) > 1 and header[label] not in labels:
            return mean_words(texts) >= SENTENCE
    return False


def _is_above_numbers_or_dates(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether a first row has words above a column of numbers or dates, and no value of any column below.

    The names may be whole questions, as in tables of answers to a form.
    """
    rows = [row for row in body if len(row) == len(header)]
    if len(rows) < _FEW_ROWS or len(header) < 3 or not all(header):
        return False
    columns = list(zip(*rows, strict=True))
    if any(name in column for name, column in zip(header, columns, strict=True)):
        return False
    typed = [name for name, column in zip(header, columns, strict=True) if is_date(column) or _is_filled_number(column)]
    return any(re.search(r"[^\W\d]", name) and name not in MISSING and not is_date([name]) for name in typed)


def _is_filled_number(column: Sequence[str]) -> bool:
    return all(column) and is_number(column)


def _occurs_below(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether several rows have a value that is also in the first row, so that it is a row as well."""
    below = sum(any(a and a == b for a, b in zip(header, row, strict=False)) and row != header for row in body)
    return below > max(1, 0.05 * len(body))


def _is_unlike(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether a first row has short distinct words that are not below, above a column of texts or numbers."""
    named = [name for name in header if name]
    if not body or not named or len(set(named)) < len(named):
        return False
    if any(re.fullmatch(r"[-+0-9.,eE\s]+", name) or len(name.split()) > 3 for name in named):
        return False
    if any(name[-1] in ".!?;" for name in named):
        return False
    rows = [row for row in body if len(row) == len(header)]
    if any(a and a == b for row in rows for a, b in zip(header, row, strict=True)):
        return False
    columns = [strings(column) for column in zip(*rows, strict=True)]
    if any(len(column) > 1 and is_number(column) for column in columns):
        return True
    return any(is_wordy(column) and mean_words(column) > 3 for column in columns)
