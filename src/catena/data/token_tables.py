"""Sentences of tokens that are stored in tables or JSON: a token in each row, lists of tokens, or spans of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from catena.data.detect import detect_format
from catena.data.examples import Columns
from catena.data.readers import columns as column_files
from catena.data.readers.delimited import NOT_ANNOTATED, Row
from catena.data.reading import DamagedRecords, ReadCounter, parse_rows
from catena.data.roles import ColumnChoice
from catena.data.tables import Table, open_table
from catena.data.task_rules import guess_task, to_span, to_spans
from catena.data.values import lookup, strings, to_text, to_tokens
from catena.errors import FormatError

_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def read_columns(
    path: Path | str,
    *,
    separator: str | None = None,
    stored: str | None = None,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
) -> Iterator[Columns]:
    """Yield the sentences of a column file, or of a table or JSON file that holds tokens and tags.

    Args:
        path: the file.
        separator: tab, blank or slash for column files; table, lists or spans for others. Detected if omitted.
        stored: the format of a file that is not a column file, such as csv or jsonl.
        encoding: UTF-8 if omitted.
        counter: counts the sentences and lists the dropped ones.
    """
    if separator in (None, "tab", "blank", "slash"):
        yield from column_files.read(path, separator=separator, encoding=encoding, counter=counter)  # type: ignore[arg-type]
        return
    path = Path(path)
    table = open_table(path, stored or detect_format(path, encoding).options["stored"], {}, encoding)
    guess = guess_task(table)
    if guess.tokens != separator:
        raise FormatError(f"{path} must have sentences of tokens, got {guess.why}. Pass another --input-format.")
    if separator == "table":
        yield from _read_rows(table, guess.columns, counter)
    else:
        yield from _read_records(table, separator, guess.columns, counter)


def _read_rows(table: Table, columns: Mapping[str, ColumnChoice], counter: ReadCounter | None) -> Iterator[Columns]:
    """The sentences of a table with a token in each row. An empty number continues the sentence."""
    word, tag, number = (columns[name].columns[0] for name in ("word", "tag", "sentence"))
    others = [name for name in table.names if name not in (word, tag, number)]
    damaged = DamagedRecords(table.path, counter, "Give every row a word and a tag.")
    for _, rows in groupby(_numbered(table, number), key=lambda pair: pair[0]):
        found = [row for _, row in rows]
        cells = [_cells(row, (word, *others, tag)) for row in found]
        damaged.saw()
        bad = next((i for i, row in enumerate(cells) if not row[0] or not row[-1]), None)
        if bad is None:
            yield Columns(tuple(cells), found[0].location)
        else:
            damaged.add(found[bad].location, "with a row without a word or a tag", found[bad].raw)
    damaged.check()


def _numbered(table: Table, number: str) -> Iterator[tuple[int, Row]]:
    """The rows that are not blank, with the number of their sentence from 0."""
    n, now = -1, None
    for row in table.rows(None):
        if row.problem is not None and not row.damaged:
            continue
        here = strings([lookup(row.values, number)])
        if n < 0 or (here and here != now):
            n, now = n + 1, here
        yield n, row


def _cells(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    return tuple((to_text(row.values.get(name)) or "").strip() for name in names)


def _read_records(
    table: Table, kind: str, columns: Mapping[str, ColumnChoice], counter: ReadCounter | None
) -> Iterator[Columns]:
    """The sentences of records with lists of tokens and tags, or with a text and its spans."""
    names = [columns[name].columns[0] for name in (("word", "tag") if kind == "lists" else ("text", "tags"))]
    classes = table.class_names(names[1])

    def parse(row: Row) -> list[tuple[str, ...]]:
        left, right = (lookup(row.values, name) for name in names)
        if kind == "lists":
            return _from_lists(left, right, classes)
        return from_spans(to_text(left) or "", to_spans(right))

    damaged = DamagedRecords(table.path, counter, "Correct the tags.")
    for row, rows in parse_rows(_annotated(table, names[1]), damaged, parse):
        if rows:
            yield Columns(tuple(rows), row.location)
        elif counter is not None:
            counter.drop("empty", row.location, row.raw)


def _annotated(table: Table, tags: str) -> Iterator[Row]:
    """The rows, where one without tags that nobody annotated is not a record."""
    for row in table.rows(None):
        missing = row.short == NOT_ANNOTATED and lookup(row.values, tags) is None
        yield replace(row, problem=NOT_ANNOTATED) if missing and row.problem is None else row


def _from_lists(words: Any, tags: Any, classes: Sequence[str]) -> list[tuple[str, ...]]:
    words, tags = to_tokens(words), to_tokens(tags)
    if words is None or tags is None or len(words) != len(tags):
        raise ValueError("without a tag for each word")
    named = [classes[tag] if classes and isinstance(tag, int) and 0 <= tag < len(classes) else tag for tag in tags]
    return [((to_text(word) or "").strip() or "_", str(tag)) for word, tag in zip(words, named, strict=True)]


def from_spans(text: str, spans: Any) -> list[tuple[str, ...]]:
    """The tokens of a text with BIO tags of its spans. Tokens are words and marks, cut where a span begins or ends.

    Raises:
        ValueError: if a span has no label, is outside the text or overlaps another.
    """
    read = [to_span(one) for one in (spans if isinstance(spans, list) else [])]
    if None in read:
        raise ValueError("with a span without a start, an end and a label")
    found = sorted(span for span in read if span is not None)
    for before, (start, end, _) in zip([(0, 0, ""), *found], found, strict=False):
        if not before[1] <= start < end <= len(text):
            raise ValueError(f"with a span, {start} to {end}, that is outside the text or overlaps another")
    cuts = sorted({0, len(text), *(start for start, _, _ in found), *(end for _, end, _ in found)})
    rows: list[tuple[str, ...]] = []
    for begin, stop in pairwise(cuts):
        inside = next((label for start, end, label in found if start <= begin and stop <= end), None)
        for i, token in enumerate(_TOKEN.findall(text[begin:stop])):
            rows.append((token, "O" if inside is None else f"{'I' if i else 'B'}-{inside}"))
    return rows
