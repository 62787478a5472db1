"""What a trained translator is asked with: sources alone, or pairs to be judged by, as they lie in files.

``own`` is always how the training files were read.
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
    """The sources of a file of pairs, or every line of a plain one; of tables and JSON lines their sources, beside
    targets or alone."""
    data = resolve_data(path, reading, own)
    known = ("text", *FORMATS)
    if reading.format is not None and reading.format not in known:
        raise FormatError(f"--input-format is {reading.format!r}, and a translator reads {', '.join(known)}")
    if reading.format == "parallel":
        yield from (pair.source for pair in read_pairs([(str(path), None)], data))
    elif (kind := _kind(path, reading, own)) != "lines":
        yield from _of_table(path, kind, reading, data)
    else:
        with open_text(path, data.encoding) as lines:
            yield from sources_of_lines((line for _, line in lines), own.swap)


def _kind(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> PairKind:
    """How a file of texts is written, as it is asked for or as it looks."""
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
        said = str(error).removesuffix(".")
        raise FormatError(f"{said}. Or is every line a text? --input-format text takes it so.") from None


def about_sources(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> list[str]:
    """That a file begins with the names of its columns, which are not translated."""
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
    except FormatError:  # it is told when the texts are read
        return []


def resolve_data(path: Path, reading: ReadOptions, own: TranslateDataConfig) -> TranslateDataConfig:
    """How a file is read: as it is asked for, by its name, or as the training files were, whose columns need not be
    there."""
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
    """The pairs of a file, or of two where ``reading`` names the targets; empty ones are left out."""
    if (reading.source_column is None) != (reading.target_column is None):
        raise DataError("--source-column and --target-column belong together: give both, or neither")
    data = resolve_data(path, reading, own)
    files = [(str(path), None if reading.target is None else str(reading.target))]
    if reading.target is None:
        check_pairs(path, data)
    elif has_pairs(path, data.encoding):
        raise DataError(
            f"{path} has a tab on every line, so that it holds its targets already: leave --target "
            f"{reading.target} out, or give a file of sources alone"
        )
    else:
        data = data.model_copy(update={"swap": False})  # the files say themselves which is which
    found = ReferenceTexts([], [])
    for pair in read_pairs(files, data):
        if pair.source.strip() and pair.target.strip():
            found.sources.append(pair.source)
            found.targets.append(pair.target)
    if not len(found):
        raise DataError(f"{path} has no pairs to score")
    return found
