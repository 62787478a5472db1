"""Records of any file by the roles of a task: the one reader of tables, pairs and lines.

    for record in read_records("mails.csv", (TEXT, LABEL), columns={"label": "folder"}, counter=counter):
        record["text"], record["label"], record.columns["id"], record.location

A record that cannot be used is counted and listed in the counter, with its line and the reason. Without a counter,
nothing is dropped: a damaged record raises an error, and a missing value is None. ``read_examples``,
``read_pairs`` and ``read_texts`` yield the usual examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from catena.data.column_choice import choose_columns
from catena.data.detect import detect_format
from catena.data.examples import LabeledText, ParallelText, SourceLocation, Text
from catena.data.pairing import read_parallel
from catena.data.readers.delimited import EMPTY, NO_RECORDS, Row
from catena.data.readers.layout import find_layout
from catena.data.readers.sample import UNKNOWN, DetectedFormat, take_sample
from catena.data.reading import DamagedRecords, ReadCounter
from catena.data.roles import ID_NAME, LABEL, MISSING, SOURCE, TARGET, TEXT, ColumnChoice, NoColumnError, Role
from catena.data.tables import RECORD_FORMATS, TABLE_FORMATS, Table, open_table
from catena.data.values import ONES, SENTENCE, is_id, lookup, mean_words, strings, to_list, to_text
from catena.errors import FormatError


@dataclass(slots=True)  # not frozen, which would make it three times as slow to create
class Record:
    """One record of a file.

    Args:
        values: the value of each role: a string, a tuple of strings for a list, or None if it is optional and missing.
        location: the source location.
        columns: the other columns as they are stored, such as an id.
    """

    values: Mapping[str, Any]
    location: SourceLocation
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, role: str) -> Any:
        return self.values[role]

    @property
    def ids(self) -> dict[str, Any] | None:
        """The columns whose names say that they identify a record, such as ``id`` or ``tweet_id``; None without one."""
        if not self.columns:
            return None
        return {name: value for name, value in self.columns.items() if ID_NAME.fullmatch(name.strip())} or None


@dataclass(frozen=True, eq=False)
class RecordFile:
    """An open file of records, which can be read several times.

    Args:
        table: the rows.
        roles: the roles that are read.
        choices: the column of each role.
        detected: the format, and the evidence for it.
    """

    table: Table
    roles: tuple[Role, ...]
    choices: Mapping[str, ColumnChoice]
    detected: DetectedFormat

    def read(self, counter: ReadCounter | None = None, *, keep_empty: bool = False) -> Iterator[Record]:
        """Yield the records.

        Args:
            counter: counts all records and lists those that are dropped. Without one, damaged records raise an error,
                and records without a required value are yielded with None.
            keep_empty: yield records without a required value also with a counter, so that each has an output.
        """
        damaged = DamagedRecords(self.table.path, counter, self._cure())
        for row in self.table.rows(self._wide()):
            damaged.saw()
            record, problem, is_damaged = self._record(row)
            if row.note is not None and counter is not None:
                counter.note(row.note, row.location, row.raw)
            if is_damaged and problem is not None:
                damaged.add(row.location, problem, row.raw)
            elif problem is None or (problem not in NO_RECORDS and (keep_empty or counter is None)):
                yield record
            elif counter is not None:
                counter.drop(problem, row.location, self._shown(row, record))
        damaged.check()

    def _record(self, row: Row) -> tuple[Record, str | None, bool]:
        """The record of a row, the reason to drop it, if any, and whether its form is damaged."""
        values: dict[str, Any] = dict.fromkeys(self._names)
        if row.problem is not None:
            return Record(values, row.location), row.problem, row.damaged
        problem = None
        for role in self.roles:
            try:
                values[role.name] = self._value(role, row)
            except ValueError as error:
                return Record(values, row.location), str(error), True
            if problem is None and role.required and not values[role.name]:
                problem = row.short or no_value(role)
        used = self._used
        others = {name: value for name, value in row.values.items() if name not in used}
        return Record(values, row.location, others), problem, False

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles)

    @cached_property
    def _used(self) -> frozenset[str]:
        """The columns that are read."""
        return frozenset(column for choice in self.choices.values() for column in choice.columns)

    def _value(self, role: Role, row: Row) -> Any:
        choice = self.choices.get(role.name)
        if choice is None:
            return None
        if choice.one_hot:
            prefix = _common_parent(choice.columns)
            ones = (name for name in choice.columns if str(row.values.get(name)).strip() in ONES)
            return tuple(name.removeprefix(prefix) for name in ones)
        value = None
        for column in choice.columns:
            value = row.values[column] if column in row.values else lookup(row.values, column)
            if value is not None:
                break
        if choice.lists and isinstance(value, str):
            raise ValueError(f"with a text instead of a list of {role.name}")
        if role.is_list:
            make = _list_of_text if isinstance(value, str) else to_list  # most labels repeat
            return make(value, role.missing, role.separator, choice.class_names, choice.integers) or None
        text = to_text(value)
        missing = _MISSING_TEXTS if role.name in self._with_sentences else role.missing
        return None if text is None or text.strip() in missing else text

    @cached_property
    def _with_sentences(self) -> frozenset[str]:
        """The roles of tables in which texts are sentences, so that NaN and NULL mean missing texts."""
        if self.table.layout is None:
            return frozenset()
        columns = {
            name: [lookup(row, choice.columns[0]) for row in self.table.sample] for name, choice in self.choices.items()
        }
        return frozenset(name for name, own in columns.items() if mean_words(strings(own)) >= SENTENCE)

    def _wide(self) -> str | None:
        """The column of texts in a tab-separated table of two columns, whose texts may contain tabs."""
        layout = self.table.layout
        if layout is None or layout.delimiter != "\t" or layout.quote is not None or len(layout.names) != 2:
            return None
        text = self.choices.get(TEXT.name)
        return text.columns[0] if text is not None else None

    def _cure(self) -> str:
        layout = self.table.layout
        if layout is None:
            return "Write one complete JSON object per line." if self.detected.format == "jsonl" else "Correct them."
        if layout.delimiter == "\t":
            return "Remove the tabs inside fields, or put these fields in double quotes in all lines."
        return f"Put fields that contain {layout.delimiter!r} in double quotes, and double the quotes inside them."

    def _shown(self, row: Row, record: Record) -> str:
        """What a list of dropped records shows: the first text of the record, or the record itself."""
        first = next((record.values[role.name] for role in self.roles if isinstance(record[role.name], str)), None)
        return first if first is not None else row.raw


_list_of_text = lru_cache(maxsize=10_000)(to_list)


def _common_parent(columns: Sequence[str]) -> str:
    """The object that holds all columns, with its dot, as in ``cats.spam`` and ``cats.ham``; otherwise nothing."""
    parents = {column.rpartition(".")[0] for column in columns}
    return f"{parents.pop()}." if len(parents) == 1 and "" not in parents else ""


_MISSING_TEXTS = MISSING - {"None", "null", "NA"}  # which may be answers
_REASONS = {
    "text": EMPTY,
    "label": "without a label",
    "source": "with an empty source",
    "target": "with an empty target",
}


def no_value(role: Role) -> str:
    """The reason to drop a record without a value of a role."""
    return _REASONS.get(role.name, f"without {role.name}")


def open_records(
    path: Path | str,
    roles: Sequence[Role],
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    encoding: str | None = None,
) -> RecordFile:
    """Open a file of records.

    Args:
        path: a file, a folder of text files for each label, or a Hugging Face datasets folder.
        roles: what to read.
        format: a name in :data:`~catena.data.tables.RECORD_FORMATS`. Detected if omitted.
        columns: the column of a role, by name, by number from 1, or as a dotted path into JSON; several names separated
            by commas are columns of 0 and 1. Found by name or values if omitted.
        options: options of the format: ``split`` of a dataset, ``paragraphs`` of text.
        encoding: UTF-8 if omitted.

    Raises:
        FormatError: if the file has no such records, with the cure.
    """
    path = Path(path)
    given = {role: column for role, column in (columns or {}).items() if column is not None}
    detected = _detected(path, format, given, encoding)
    table = open_table(path, detected.format, {**detected.options, **(options or {})}, encoding)
    if not table.names and roles:
        list(RecordFile(table, (), {}, detected).read(ReadCounter()))  # raises an error if all records are damaged
        raise FormatError(f"{path} has no records. Add records.")
    if given and detected.format not in TABLE_FORMATS:
        name, column = next(iter(given.items()))
        raise FormatError(
            f"{path} has no columns, got --{name}-column {column}: it is {detected.why}. Remove the option, or set the "
            f"--input-format."
        )
    choices: dict[str, ColumnChoice] = {}
    if not given and {role.name for role in roles} <= detected.columns.keys():
        choices = {role.name: detected.columns[role.name] for role in roles}
    try:
        choices = choices or choose_columns(
            roles, table.names, table.sample, given, str(path), table.has_header, table.layout is not None
        )
    except NoColumnError as error:
        if _is_label_and_text(table, roles, given):
            first, second = table.names
            return RecordFile(
                table, tuple(roles), {"label": ColumnChoice((first,)), "text": ColumnChoice((second,))}, detected
            )
        if detected.format in TABLE_FORMATS:
            raise
        raise NoColumnError(
            f"{path} has no {error.role}: it is {detected.why.split(';')[0]}. Pass another file, or --input-format.",
            error.role,
        ) from None
    for name, choice in choices.items():
        if (classes := table.class_names(choice.columns[0])) and not choice.one_hot:
            choices[name] = replace(choice, class_names=classes)
    return RecordFile(table, tuple(roles), choices, detected)


def _is_label_and_text(table: Table, roles: Sequence[Role], given: Mapping[str, str]) -> bool:
    """Whether a table is lines of label<TAB>text by convention, though its few values do not show it."""
    is_plain = table.layout is not None and table.layout.delimiter == "\t" and not table.has_header
    if not is_plain or len(table.names) != 2 or given or not {role.name for role in roles} <= {"text", "label"}:
        return False
    return not is_id([row.get(table.names[0]) for row in table.sample])


def read_records(
    path: Path | str,
    roles: Sequence[Role],
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
    keep_empty: bool = False,
) -> Iterator[Record]:
    """Yield the records of a file. See :func:`open_records` and :meth:`RecordFile.read` for the arguments.

    Args:
        path: the file.
        roles: what each column is for.
        format: format of the file; detected if None.
        columns: the column of a role, by name, by number from 1, or as a dotted path into JSON; found by name or
            values if None.
        options: options of the format: ``split`` of a dataset, ``paragraphs`` of text.
        encoding: text encoding; UTF-8 if None.
        counter: counts all records and lists those that are dropped; without one, damaged records raise an error.
        keep_empty: yield records without a required value also with a counter, so that each has an output.
    """
    file = open_records(path, roles, format=format, columns=columns, options=options, encoding=encoding)
    yield from file.read(counter, keep_empty=keep_empty)


def _detected(path: Path, format: str | None, given: Mapping[str, str], encoding: str | None) -> DetectedFormat:
    if format in (None, "csv", "tsv") and (table := _table_with(path, given, encoding)) is not None:
        return table
    if format is not None:
        if format not in RECORD_FORMATS:
            raise FormatError(
                f"The format of {path} must be one of {', '.join(RECORD_FORMATS)}, got {format!r}. Choose one of them."
            )
        return DetectedFormat(format, "the format was set")
    found = detect_format(path, encoding)
    if found.format == UNKNOWN:
        raise FormatError(found.why)
    if found.format == "columns" and found.options.get("stored") and given:  # the user reads it as a table
        return DetectedFormat(found.options["stored"], found.why)
    if found.format not in RECORD_FORMATS:
        if found.why.endswith("."):  # it has a cure of its own
            raise FormatError(f"{path} is {found.why}")
        raise FormatError(
            f"{path} is {found.why}, which has no texts in columns. If that is wrong, pass --input-format, such as csv."
        )
    return found


def _table_with(path: Path, given: Mapping[str, str], encoding: str | None) -> DetectedFormat | None:
    """The table in text lines whose header has the names that the user sets, if the file is one."""
    named = {column for column in given.values() if not column.isdecimal() and "," not in column}
    sample = take_sample(path, encoding) if named else None
    if sample is None or sample.is_folder or sample.head.startswith((b"PAR1", b"ARROW1", b"PK")) or not sample.filled:
        return None
    if sample.filled[0].lstrip().startswith(("{", "[")):
        return None
    kind = "tsv" if sample.is_named(".tsv") else "csv"
    found = find_layout(sample.numbered(), kind, sample.whole, named)
    if found is None or not {name.casefold() for name in named} <= {name.casefold() for name in found.layout.names}:
        return None
    format = "tsv" if found.layout.delimiter == "\t" else "csv"
    return DetectedFormat(format, "its header has these names", {"layout": found.layout})


# --- examples ---------------------------------------------------------------------------------------------------------


def read_examples(
    path: Path | str,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    multilabel: bool = False,
    labeled: bool = True,
    options: Mapping[str, Any] | None = None,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
    keep_empty: bool = False,
) -> Iterator[LabeledText]:
    """Yield texts with their labels.

    Args:
        path: the file.
        format: detected if omitted.
        columns: the columns of "text" and "label".
        separator: what separates several labels in one cell, such as "|".
        multilabel: whether texts may have any number of labels, including none.
        labeled: False yields texts without labels, also from files that have none.
        options: options of the format.
        encoding: UTF-8 if omitted.
        counter: counts the records and lists the dropped ones.
        keep_empty: yield records without a text as well.
    """
    label = replace(LABEL, separator=separator, required=not multilabel and separator is None)
    roles = (TEXT, label) if labeled else (TEXT,)
    file = open_records(path, roles, format=format, columns=columns, options=options, encoding=encoding)
    if labeled and LABEL.name not in file.choices:
        raise FormatError(f"{path} has no labels: it is {file.detected.why}. Pass a file with labels.")
    for record in file.read(counter, keep_empty=keep_empty):
        yield LabeledText(record["text"] or "", (record["label"] or ()) if labeled else (), record.location, record.ids)


def read_texts(
    path: Path | str,
    *,
    format: str | None = None,
    text_column: str | None = None,
    paragraphs: bool = False,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
    keep_empty: bool = False,
) -> Iterator[Text]:
    """Yield the texts of a file: its lines, or the text column of a table. ``paragraphs`` joins lines of text."""
    columns = {} if text_column is None else {"text": text_column}
    options = {"paragraphs": True} if paragraphs else {}
    file = open_records(path, (TEXT,), format=format, columns=columns, options=options, encoding=encoding)
    for record in file.read(counter, keep_empty=keep_empty):
        yield Text(record["text"] or "", record.location, record.ids)


def read_pairs(
    path: Path | str,
    target: Path | str | None = None,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    with_targets: bool = True,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
    keep_empty: bool = False,
) -> Iterator[ParallelText]:
    """Yield pairs of texts, with single blanks between words.

    Args:
        path: a file of pairs, or of sources if there is a second file.
        target: a file with the target of each line of ``path``.
        format: detected if omitted.
        columns: the columns of "source" and "target".
        with_targets: False allows files without targets, whose pairs have empty ones.
        encoding: UTF-8 if omitted.
        counter: counts the pairs and lists the dropped ones.
        keep_empty: yield pairs with an empty side as well.
    """
    if target is not None:
        yield from read_parallel(path, target, encoding, counter, keep_empty)
        return
    roles = (SOURCE, replace(TARGET, required=with_targets))
    file = open_records(path, roles, format=format, columns=columns, encoding=encoding)
    for record in file.read(counter, keep_empty=keep_empty):
        source, other = (" ".join((record.values.get(name) or "").split()) for name in ("source", "target"))
        yield ParallelText(source, other, record.location, record.ids)
