"""Rules of format detection for tables: JSON lines, and CSV or TSV with and without a header."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from catena.data.readers.names import COMPOSED_NAMES, GOAL_NAMES, ITEM_NAMES, TEXT_NAMES, find_name, named_columns
from catena.data.readers.sample import FormatEvidence, Sample, list_names


def jsonl_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for JSON lines: an object on each line."""
    lines = sample.filled
    if not lines[0].lstrip().startswith("{"):
        return None
    if len(lines) == 1 and not sample.whole:
        return FormatEvidence("it begins with '{' and its first line is longer than the sample")
    try:
        objects = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(thing, dict) for thing in objects):
        return None
    names = list(objects[0])
    named = named_columns(names) or _composed(names)
    found = " and ".join(f"{name!r} is the {key.split('_')[0]}" for key, name in named.items())
    found = found or "none of these is a common name of text or label"
    return FormatEvidence(
        f"every line is a JSON object, the first with the keys {list_names(names)}; {found}", {**named}
    )


def _composed(names: Sequence[str]) -> dict[str, str]:
    """The text column if there are a goal and items to mention, as in recipes, otherwise nothing."""
    goal, items, text = (find_name(names, known) for known in (GOAL_NAMES, ITEM_NAMES, COMPOSED_NAMES))
    return {} if goal is None or items is None or text is None else {"text_column": text}


def csv_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for a table separated by commas, semicolons or bars."""
    for delimiter in (",", ";", "|"):
        rows = _csv_rows(sample, delimiter)
        if rows and (sample.is_named(".csv") or named_columns(rows[0])):
            return _table_sign(
                rows, f"separated by {delimiter!r}", {} if delimiter == "," else {"delimiter": delimiter}
            )
    if sample.is_named(".csv") and find_name([sample.filled[0].strip('" ')], TEXT_NAMES) is not None:
        return FormatEvidence(
            "it is named .csv and its one column has a common name of texts",
            {"text_column": sample.filled[0].strip('" ')},
        )
    return None


def tsv_sign(sample: Sample) -> FormatEvidence | None:
    """Evidence for a tab-separated table."""
    rows = [line.split("\t") for line in sample.filled]
    quoted = is_quoted(rows)
    rows = _csv_rows(sample, "\t") if quoted else rows
    width = len(rows[0]) if rows else 0
    if width < 2 or any(len(row) != width for row in rows):
        return None
    needed = 1 if width > 2 or sample.is_named(".tsv") else 2
    if width == 2 and len(named_columns(rows[0])) < needed:
        return None  # two fields without names: a label and a text, or parallel text
    return _table_sign(rows, "separated by tabs", {"quoted": True} if quoted else {})


def _csv_rows(sample: Sample, delimiter: str) -> list[list[str]]:
    """The rows of the sample if they all have the same number of fields, two or more; otherwise none."""
    if delimiter not in sample.filled[0]:
        return []
    text = io.StringIO("\n".join(sample.lines))
    try:
        rows = [row for row in csv.reader(text, delimiter=delimiter, strict=sample.whole) if row]
    except csv.Error:
        return []
    rows = rows if sample.whole or len(rows) < 3 else rows[:-1]
    return rows if len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows) else []


def is_quoted(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the quotes in a TSV are CSV quotes: always closed, and doubled inside or around every name."""
    fields = [field for row in rows for field in row if field.startswith('"')]
    closed = [re.fullmatch(r'"([^"]|"")*"', field) is not None for field in fields]
    is_doubled = any('""' in field[1:-1] for field in fields) or all(name[:1] == '"' for name in rows[0])
    return bool(fields) and all(closed) and is_doubled


def _table_sign(rows: Sequence[Sequence[str]], parted: str, options: dict[str, Any]) -> FormatEvidence | None:
    header, body = [name.strip() for name in rows[0]], rows[1:]
    shape = f"every row has {len(header)} fields {parted}"
    if named := named_columns(header) or _composed(header):
        found = " and ".join(f"{name!r} is the {key.split('_')[0]}" for key, name in named.items())
        return FormatEvidence(f"{shape} and the first row names them: {found}", {**options, **named})
    if _is_header(header, body):
        if any(is_wordy(column) for column in zip(*body, strict=True)):
            why = f"the first row seems to be a header: {list_names(header)}, without common names"
            return FormatEvidence(f"{shape} and {why}", options)
        return None
    if guessed := _columns_by_content(rows):
        text, label = guessed
        why = f"field {text} has the longest texts and field {label} repeats like a label"
        chosen = {"header": False, "text_column": str(text), "label_column": str(label)}
        return FormatEvidence(f"{shape}, without a header; {why}", {**options, **chosen})
    return None


def _is_header(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether a row is a header: short distinct names, not numbers, that do not occur below."""
    if not body or len(set(header)) < len(header) or any(not name.strip() or len(name) > 40 for name in header):
        return False
    if any(re.fullmatch(r"[-+0-9.,eE\s]+", name) for name in header):
        return False
    return not any(name == field for row in body for name, field in zip(header, row, strict=True))


def is_wordy(column: Sequence[str]) -> bool:
    """Whether the values of a column have two words or more on average."""
    return sum(len(value.split()) for value in column) >= 2 * len(column)


def _columns_by_content(rows: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """The fields of texts and labels, counted from 1, if the values make it clear."""
    columns = list(zip(*rows, strict=True))
    text = max(range(len(columns)), key=lambda j: sum(map(len, columns[j])))
    labels = [j for j in range(len(columns)) if j != text and repeats(columns[j])]
    if len(rows) < 4 or not is_wordy(columns[text]) or not labels:
        return None
    return text + 1, 1 + min(labels, key=lambda j: len(set(columns[j])))


def repeats(values: Sequence[str]) -> bool:
    """Whether values repeat like labels."""
    return len(set(values)) <= 0.5 * len(values) and all(value.strip() for value in values)
