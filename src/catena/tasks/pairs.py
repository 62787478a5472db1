"""Files of pairs of texts, for tasks that map a text to another. Imports no torch.

Tested in tests/tasks/translate/test_data.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from catena.data import records
from catena.data.detect import detect_format
from catena.data.examples import ParallelText, SourceLocation
from catena.data.files import open_text
from catena.data.pairing import sources_of_lines
from catena.data.reading import ReadCounter
from catena.data.roles import SOURCE, TEXT_COLUMNS, find_column, find_pair
from catena.data.tables import TABLE_FORMATS
from catena.errors import CatenaError, DataError, FormatError
from catena.tasks.config import PairFilesConfig
from catena.tasks.targets import as_texts, check_same_length

PAIR_FORMATS = (*TABLE_FORMATS, "dictionary", "tmx")
"""Formats that hold pairs of texts."""
_FEW_LINES = 200


def read_pairs(
    data: PairFilesConfig, path: Path, counter: ReadCounter, *, target: Path | None = None, format: str | None = None
) -> Iterator[ParallelText]:
    """The pairs of a file, swapped if the config says so. Empty pairs are dropped.

    Args:
        data: how the file is read.
        path: a file of pairs, or of sources if there is a second file.
        counter: counts the pairs and lists those that are dropped.
        target: a file with the target of each line of ``path``.
        format: the format; by default the one of the config, or detected.
    """
    if target is not None:
        format = None
    elif format is None and data.input_format != "auto":
        format = data.input_format
    is_own = path.resolve() in map(Path.resolve, data.files().values())
    columns = data.columns if is_own else _columns(data, path)
    for pair in records.read_pairs(
        path, target, format=format, columns=columns, encoding=data.encoding, counter=counter
    ):
        yield ParallelText(pair.target, pair.source, pair.location) if data.swap else pair


def read_sources(data: PairFilesConfig, path: Path, counter: ReadCounter) -> Iterator[ParallelText]:
    """The sources of a file of pairs, table or JSON lines, or the lines of a plain text file, without targets.

    Tables and JSON lines may lack the targets. Every record has a source, which may be empty.
    """
    for i, text in enumerate(counter.seen(_sources(data, path)), start=1):
        yield ParallelText(text, "", SourceLocation(str(path), i))


def _sources(data: PairFilesConfig, path: Path) -> Iterator[str]:
    detects, columns, swap = data.input_format == "auto", _columns(data, path), data.swap
    format = detect_format(path, data.encoding).format if detects else data.input_format
    if not detects and format not in (*PAIR_FORMATS, "text"):
        raise FormatError(
            f"--input-format must be one of {', '.join(PAIR_FORMATS)} or text, got {format!r}. Choose text if each "
            f"line is a source."
        )
    if not detects and format == "text":
        columns = {}
    if detects and not columns and (text := _text_column(path, data)) is not None:
        columns = {"source": text}
    are_lines = detects and format in ("csv", "tsv") and has_tabs(path, data.encoding)
    if not columns and (format not in PAIR_FORMATS or are_lines):
        with open_text(path, data.encoding) as lines:
            yield from sources_of_lines((line for _, line in lines), swap)
        return
    if swap and len(columns) == 2:
        columns, swap = {"source": columns["target"], "target": columns["source"]}, False
    if not swap:
        columns = {role: column for role, column in columns.items() if role == "source"} or columns
    pairs = records.read_pairs(
        path,
        format=None if detects else format,
        columns=columns,
        with_targets=False,
        encoding=data.encoding,
        keep_empty=True,
    )
    try:
        yield from (pair.target if swap and pair.target else pair.source for pair in pairs)
    except FormatError as error:
        if not detects:
            raise
        problem = str(error).removesuffix(".")
        raise FormatError(f"{problem}. If every line is a text, pass --input-format text.") from None


def has_tabs(path: Path, encoding: str | None) -> bool:
    """Whether every nonblank line at the start of a file has one tab."""
    with open_text(path, encoding) as lines:
        filled = [line for _, line in islice(lines, _FEW_LINES) if line.strip()]
    return bool(filled) and all(line.count("\t") == 1 for line in filled)


def _text_column(path: Path, data: PairFilesConfig) -> str | None:
    """The column of texts in a table that has no column of targets, such as id<TAB>text."""
    layout = detect_format(path, data.encoding).options.get("layout")
    if layout is None or layout.header is None or find_pair(layout.names) is not None:
        return None
    return find_column(layout.names, TEXT_COLUMNS)


def _columns(data: PairFilesConfig, path: Path) -> dict[str, str]:
    """The columns of a file. Columns of the training files are used if the file has them."""
    if data.sets_columns or not data.columns:
        return data.columns
    named = {role: column for role, column in data.columns.items() if role == "source"}
    try:
        records.open_records(path, (SOURCE,), columns=named, encoding=data.encoding)
    except CatenaError:
        return {}
    return data.columns


def describe_pairs(data: PairFilesConfig, path: Path, target: Path | None = None) -> str:
    """The format of a file of pairs, and its columns."""
    if target is not None:
        return f"{path} and {target} are parallel line by line"
    if data.input_format != "auto":
        return f"{path} is read as {data.input_format}"
    found = detect_format(path, data.encoding)
    columns = ", ".join(f"{role} = {column!r}" for role, column in data.columns.items())
    why = f"{found.why.split(':')[0]}, {columns}" if columns else found.why
    return f"{path} is {found.format}: {why}"


def paired_texts(x: Any, y: Any) -> list[ParallelText]:
    """Pairs of the texts that users pass to estimators: lists, arrays or columns of the same length."""
    if y is None:
        raise DataError("y must have the target text of each source, got None. Pass it, or a path of a file of pairs.")
    sources, targets = as_texts(x), as_texts(y)
    check_same_length(sources, targets, "source", "text")
    sides = zip(sources, targets, strict=True)
    return [ParallelText(*pair, SourceLocation("fit", i)) for i, pair in enumerate(sides, start=1)]
