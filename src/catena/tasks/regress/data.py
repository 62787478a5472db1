"""Examples of regression: a text, numbers, or both, and the value to predict. Imports no torch.

A record whose value or numbers are missing, not numbers or not finite is dropped, counted and listed. Tested in
tests/tasks/regress/test_data.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.quantities import PLAIN, NumberStyle, find_style, parse_number, to_float
from catena.data.reading import ReadCounter
from catena.data.records import Record, RecordFile, open_records
from catena.data.roles import LABEL_COLUMNS, MISSING, TEXT_COLUMNS, ColumnChoice, Role, find_column
from catena.data.tables import TABLE_FORMATS
from catena.data.values import is_wordy, lookup, repeats, strings
from catena.errors import FormatError
from catena.registry import did_you_mean
from catena.tasks.regress.config import RegressDataConfig

_VALUE_NAMES = ("value", "target", "y", "score", "rating", "price")
VALUE_COLUMNS = (*_VALUE_NAMES, *LABEL_COLUMNS)
_NUMERIC = 0.75
"""Fraction of the cells of a column that are numbers from which it is a column of numbers."""
_TEXT = Role("text", TEXT_COLUMNS, required=False)
_VALUE = Role("value", VALUE_COLUMNS, required=False, missing=MISSING)


@dataclass(frozen=True, slots=True)
class RegressExample:
    """A text, numbers, or both, and the value to predict, with its source location.

    Args:
        text: the text; empty if the data has none.
        numbers: one for each number column; nan where one is missing, in prediction only.
        value: nan if it is to be predicted.
        weight: the factor of its loss in training.
    """

    text: str
    numbers: tuple[float, ...]
    value: float
    location: SourceLocation
    weight: float = field(default=1.0, kw_only=True)

    @property
    def key(self) -> str:
        """What the model reads, as a string."""
        return "\t".join((self.text, *map(repr, self.numbers)))


@dataclass(frozen=True)
class TableColumns:
    """The columns of a file: the text, the value, and the numbers to predict from."""

    text: str | None
    value: str | None
    numbers: tuple[str, ...]
    unused: tuple[str, ...] = ()
    """Columns of numbers that are not read, because there is a text."""
    written: Mapping[str, tuple[NumberStyle, str]] = field(default_factory=dict)
    """How columns write their numbers, with an example, if not as programs do."""

    def parse(self, name: str, value: Any) -> tuple[float, str | None]:
        """The number that a cell of a column holds, as :func:`parse_number` has it."""
        return parse_number(value, self.written[name][0] if name in self.written else PLAIN)

    def __str__(self) -> str:
        named = {"text": self.text, "value": self.value}
        parts = [f"{role} = {name!r}" for role, name in named.items() if name is not None]
        if self.numbers:
            parts.append(f"numbers = {', '.join(map(repr, self.numbers))}")
        found = ", ".join(parts)
        for name in (self.value, *self.numbers):
            if name is not None and name in self.written:
                style, example = self.written[name]
                found += f"; {example!r} of {name!r} is read as {style.parse(example):g}"
        if self.unused:
            names = ",".join(self.unused)
            found += f"; to predict also from the numbers of other columns, pass --number-columns {names}"
        return found


def read_values(
    data: RegressDataConfig, path: Path, counter: ReadCounter, *, gold: bool = True
) -> Iterator[RegressExample]:
    """The examples of a file.

    Args:
        data: the config of the data.
        path: the file.
        counter: counts what is read and dropped.
        gold: whether values are read; otherwise they may be missing, and a missing number is nan.
    """
    file, columns = open_values(data, path, gold=gold)
    for record in file.read(counter, keep_empty=True):
        example, problem = _to_example(record, columns, gold)
        if problem is None:
            yield example
        else:
            counter.drop(problem, record.location, example.text or example.key)


def open_values(data: RegressDataConfig, path: Path, *, gold: bool = True) -> tuple[RecordFile, TableColumns]:
    """The records of a file, and its columns. Arguments as in :func:`read_values`."""
    format = None if data.input_format == "auto" else data.input_format
    file = open_records(path, (), format=format, encoding=data.encoding)
    if not file.table.names:
        raise FormatError(f"{path} has no records. Add records.")
    if not is_table(file):
        data = data.model_copy(update={"text_column": None, "value_column": None})
    columns = choose_table_columns(data, file.table.names, file.table.sample, str(path), gold=gold)
    chosen = {role: name for role, name in (("text", columns.text), ("value", columns.value)) if name is not None}
    roles = tuple(role for role in (_TEXT, _VALUE) if role.name in chosen)
    choices = {role: ColumnChoice((name,)) for role, name in chosen.items()}
    return replace(file, roles=roles, choices=choices), columns


def is_table(file: RecordFile) -> bool:
    """Whether the columns of a file have names that hold for other files too."""
    return file.detected.format in TABLE_FORMATS


def choose_table_columns(
    data: RegressDataConfig,
    names: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    where: str,
    *,
    gold: bool = True,
) -> TableColumns:
    """The columns of a table: those that the config sets, and others by their names and values.

    Args:
        data: the config of the data.
        names: all columns.
        rows: a sample of the records.
        where: the file, for errors.
        gold: whether a value is read.
    """
    columns = {name: [lookup(row, name) for row in rows] for name in names}
    styles = {name: find_style(cells) for name, cells in columns.items()}
    numeric = [name for name in names if _is_numeric(columns[name], styles[name])]
    value = _find(data.value_column, "value", names, rows, where) if gold else None
    if gold and value is None:
        value = _choose_value(names, numeric, where)
    free = [name for name in names if name != value]
    text = _find(data.text_column, "text", names, rows, where) or find_column(free, TEXT_COLUMNS)
    words = [name for name in free if name not in numeric and strings(lookup(row, name) for row in rows)]
    texts = [name for name in words if _may_be_text(name, rows)]
    if text is None and 1 in (len(words), len(texts)):
        text = words[0] if len(words) == 1 else texts[0]
    found = tuple(str(_find(name, "number", names, rows, where)) for name in data.number_columns)
    others = tuple(name for name in numeric if name not in (text, value))
    written = {name: (styles[name], cell) for name in numeric if (cell := _unlike_code(columns[name], styles[name]))}
    if found:
        return TableColumns(text, value, found, written=written)
    if text is not None:
        return TableColumns(text, value, (), others, written)
    if not others:
        raise FormatError(f"{where} has no column to predict from, only {value!r}. Add a text or a column of numbers.")
    return TableColumns(None, value, others, written=written)


def _unlike_code(cells: Sequence[Any], style: NumberStyle) -> str:
    """The first cell with a number that a program would not read, or read as another one; empty if there is none."""
    for cell in cells:
        number = style.parse(cell) if isinstance(cell, str) else None
        if number is not None and number != to_float(cell):
            return str(cell)
    return ""


def _may_be_text(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a column has words that differ, unlike ids and names of classes."""
    values = strings(lookup(row, name) for row in rows)
    return is_wordy(values) and not repeats(values)


def _choose_value(names: Sequence[str], numeric: Sequence[str], where: str) -> str:
    """The column of values: a column with a common name, or the only one of numbers."""
    found = find_column(numeric, VALUE_COLUMNS) or find_column(names, _VALUE_NAMES)
    if found is None and len(numeric) == 1:
        found = numeric[0]
    if found is None:
        found = find_column(names, VALUE_COLUMNS)  # its values are not numbers, which reading reports
    if found is not None:
        return found
    shown = ", ".join(map(repr, numeric[:20])) or "none"
    example = numeric[-1] if numeric else names[-1]
    raise FormatError(
        f"{where} must show which column has the value to predict, got columns of numbers without a common name: "
        f"{shown}. Pass --value-column {example}, for example."
    )


def _find(
    name: str | None, role: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], where: str
) -> str | None:
    """The column that a name means, or its number from 1; None if none is named."""
    if name is None or name in names or any(lookup(row, name) is not None for row in rows):
        return name
    folded = [one for one in names if one.casefold() == name.casefold()]
    if len(folded) == 1:
        return folded[0]
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return names[int(name) - 1]
    raise FormatError(f"{where} has no column {name!r} of the {role}: {did_you_mean(name, names)}.")


def _is_numeric(cells: Sequence[Any], style: NumberStyle) -> bool:
    present = [problem for cell in cells if (problem := parse_number(cell, style)[1]) != "missing"]
    return bool(present) and sum(problem != "not a number" for problem in present) >= _NUMERIC * len(present)


def _to_example(record: Record, columns: TableColumns, gold: bool) -> tuple[RegressExample, str | None]:
    """The example of a record, and why it cannot be used, if so."""
    problem = None
    value = math.nan
    if columns.value is not None and gold:
        value, problem = columns.parse(columns.value, record["value"])
        problem = None if problem is None else f"with a value that is {problem}"
    numbers = []
    for name in columns.numbers:
        number, wrong = columns.parse(name, lookup(record.columns, name))
        numbers.append(number)
        if wrong is not None and gold and problem is None:
            problem = f"with {name} that is {wrong}"
    text = (record["text"] or "") if columns.text is not None else ""
    if problem is None and gold and columns.text is not None and not text.strip() and not numbers:
        problem = "empty"
    return RegressExample(text, tuple(numbers), value, record.location), problem
