"""Read files of sources to translate, or of pairs to evaluate on.

``own`` is always the data config of the training run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.files import open_text
from catena.data.pairing import sources_of_lines
from catena.data.readers.names import PairColumns
from catena.data.readers.paired import PairKind, has_columns, pair_layout, read_kind
from catena.data.readers.sample import Sample
from catena.errors import DataError, FormatError
from catena.tasks.application import ReadOptions
from catena.tasks.translate.config import TranslateDataConfig
from catena.tasks.translate.dataset import (
    FORMATS,
    ReferenceTexts,
    check_pairs,
    has_pairs,
    headers,
    kind_of_pairs,
    read_pairs,
)


def read_sources(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> Iterator[str]:
    """The sources of a file of pairs, table or JSON lines, or the lines of a plain text file.

    Tables and JSON lines may lack the targets.
    """
    data = resolve_data(path, reading, own)
    known = ("text", *FORMATS)
    if reading.format is not None and reading.format not in known:
        raise FormatError(
            f"--input-format must be one of {', '.join(known)}, got {reading.format!r}. Pass one of them, or remove it."
        )
    if reading.format == "parallel":
        yield from (pair.source for pair in read_pairs([(str(path), None)], data))
    elif (kind := _kind(path, reading, own)) != "lines":
        yield from _of_table(path, kind, reading, data)
    else:
        with open_text(path, data.encoding) as lines:
            yield from sources_of_lines((line for _, line in lines), own.swap)


def _kind(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> PairKind:
    """The layout of a file of texts, from the options or detected."""
    data = resolve_data(path, reading, own)
    if reading.format is not None:
        return FORMATS.get(reading.format, "lines")
    return pair_layout(path, data.encoding, data.columns) if path.is_file() else "lines"  # a pipe can be read once


def _of_table(path: Path, kind: PairKind, reading: ReadOptions, data: TranslateDataConfig) -> Iterator[str]:
    columns, swap = data.columns, data.swap
    if swap and columns.target is not None:
        columns, swap = PairColumns(columns.target, columns.source), False
    try:
        _, pairs = read_kind(path, kind, columns, encoding=data.encoding, with_targets=False)
        yield from (pair.target if swap and pair.target else pair.source for pair in pairs)
    except FormatError as error:
        if reading.format is not None or kind != "csv":
            raise
        problem = str(error).removesuffix(".")
        raise FormatError(f"{problem}. If every line is a text, pass --input-format text.") from None


def about_sources(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> list[str]:
    """A report line if the file has a header row, which is not translated."""
    if not path.is_file():  # a pipe can be read once
        return []
    data = resolve_data(path, reading, own)
    try:
        kind = _kind(path, reading, own)
        if kind != "lines":
            said, _ = read_kind(path, kind, data.columns, encoding=data.encoding, with_targets=False)
            return [said] if said else []
        if reading.format == "text" or not has_pairs(path, data.encoding):
            return []
        return headers([(str(path), None)], data.model_copy(update={"format": "parallel"}))
    except FormatError:  # reported when the texts are read
        return []


def resolve_data(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> TranslateDataConfig:
    """The data config for reading a file: the options, the file name, then the config of the training run.

    The columns of the training files need not exist in the file.
    """
    given = {name: value for name in ("format", "encoding") if (value := getattr(reading, name))}
    if reading.format is None and any(map(Sample(path).is_named, (".csv", ".tsv", ".jsonl"))):
        given["format"] = "auto"
    own = own.model_copy(update=given)
    if reading.source_column is not None:
        asked = {"source_column": reading.source_column, "target_column": reading.target_column}
        return own.model_copy(update=asked)
    kind = kind_of_pairs(path, own) if own.columns.named and path.is_file() else "lines"
    if kind == "lines" or not has_columns(path, kind, own.columns, own.encoding):
        return own.model_copy(update={"source_column": None, "target_column": None})
    return own


def read_pairs_with(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> ReferenceTexts:
    """The nonempty pairs of a file, or of two parallel files if ``reading.target`` is set."""
    if (reading.source_column is None) != (reading.target_column is None):
        raise DataError("Only one of --source-column and --target-column is set. Pass both or neither.")
    data = resolve_data(path, reading, own)
    files = [(str(path), None if reading.target is None else str(reading.target))]
    if reading.target is None:
        check_pairs(path, data)
    elif has_pairs(path, data.encoding):
        raise DataError(
            f"{path} has a tab on every line, so it already contains targets. Remove --target {reading.target}, or "
            f"pass a file of sources only."
        )
    else:
        data = data.model_copy(update={"swap": False})  # the two files are given in the right direction
    found = ReferenceTexts([], [])
    for pair in read_pairs(files, data):
        if pair.source.strip() and pair.target.strip():
            found.sources.append(pair.source)
            found.targets.append(pair.target)
    if not len(found):
        raise DataError(f"{path} has no pairs to score. Check the file and its columns.")
    return found
