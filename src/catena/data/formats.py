"""All file formats by name, and the texts of a file as strings: its lines, or a column of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from catena.data import records
from catena.data.detect import UNKNOWN, detect_format
from catena.data.examples import Columns, ConlluSentence, Text, Tree
from catena.data.files import open_text, stored_name
from catena.data.readers import brackets, conllu
from catena.data.readers.vectors import read_vectors
from catena.data.records import Record, read_records
from catena.data.tables import RECORD_FORMATS, TABLE_FORMATS
from catena.data.token_tables import read_columns
from catena.errors import FormatError
from catena.registry import Registry


@dataclass(frozen=True)
class Format:
    """One file format.

    Args:
        name: the value of ``--input-format``.
        title: what such a file is, in words.
        example: what the reader yields.
        read: ``read(path, …)`` with the options that detection found, ``encoding`` and ``counter``.
    """

    name: str
    title: str
    example: type
    read: Callable[..., Iterator[Any]]


_TITLES = {
    "csv": "a table (CSV)",
    "tsv": "a tab-separated table",
    "json": "a JSON document",
    "jsonl": "JSON lines",
    "xlsx": "an Excel workbook",
    "parquet": "a Parquet or Arrow file",
    "datasets": "a Hugging Face dataset",
    "first-word": "lines that begin with their label",
    "fasttext": "lines of fastText",
    "dictionary": "a pronouncing dictionary",
    "folders": "a folder of text files for each label",
    "tmx": "a translation memory (TMX)",
    "dialogue": "conversations",
    "rasa": "training data of Rasa",
}

FORMATS: Registry[Format] = Registry("format")


def _read_text(path: Path | str, *, encoding: str | None = None, **options: Any) -> Iterator[Text]:
    yield from records.read_texts(path, format="text", encoding=encoding, **options)


def _read_record_format(
    name: str, path: Path | str, *, encoding: str | None = None, counter: Any = None, **options: Any
) -> Iterator[Record]:
    """The records of a file with all their columns."""
    yield from read_records(path, (), format=name, options=options, encoding=encoding, counter=counter)


def _read_words(path: Path | str) -> Iterator[str]:
    """The words of a file of vectors."""
    yield from read_vectors(Path(path)).words


for _format in (
    Format("text", "plain text", Text, _read_text),
    *(
        Format(name, _TITLES[name], Record, partial(_read_record_format, name))
        for name in RECORD_FORMATS
        if name in _TITLES
    ),
    Format("columns", "column CoNLL", Columns, read_columns),
    Format("conllu", "CoNLL-U", ConlluSentence, conllu.read),
    Format("brackets", "Penn brackets", Tree, brackets.read),
    Format("vectors", "word vectors", str, _read_words),
):
    FORMATS.register(_format.name)(_format)


# --- texts ------------------------------------------------------------------------------------------------------------


_FORMATS_BY_SUFFIX = {
    ".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".xlsx": "xlsx",
}  # fmt: skip
_ROWS = ("conllu", "columns", "brackets", "tmx", "fasttext")
"""Formats whose lines are not texts."""


def text_format(path: Path | str, format: str = "auto") -> str:
    """The given format. For ``auto``, the format of the file extension, or plain text."""
    if format != "auto":
        return format
    return _FORMATS_BY_SUFFIX.get(Path(stored_name(path)).suffix, "text")


def check_plain_text(path: Path | str, format: str = "auto", encoding: str | None = None) -> None:
    """Raise FormatError if the lines of a file that would be read as plain text are rows of another format.

    Args:
        path: the file.
        format: the format of the config.
        encoding: UTF-8 if omitted.
    """
    if format != "auto" or text_format(path, format) != "text":
        return
    found = detect_format(path, encoding)
    if found.format == UNKNOWN:
        raise FormatError(found.why)
    got = f"{path} must have a text in each line, got {found.format}: {found.why}."
    if found.format in _ROWS:
        raise FormatError(f"{got} Write one text in each line, or pass --input-format text to read all of each line.")
    if found.format in ("csv", "tsv"):
        raise FormatError(
            f"{got} Pass --input-format {found.format} to read its texts, or --input-format text to read all of each "
            f"line."
        )


def table_of_texts(path: Path | str, encoding: str | None = None) -> str | None:
    """The format of a table or of JSON with texts to predict; None if each line of the file is a text.

    Raises:
        FormatError: if the name of the file says that it is a table or JSON, and it is not.
    """
    found = detect_format(path, encoding)
    is_named = stored_name(path).endswith((".csv", ".tsv", ".json", ".jsonl"))
    if found.format == UNKNOWN and is_named:
        raise FormatError(found.why)
    layout = found.options.get("layout")
    if found.format not in TABLE_FORMATS or (layout is not None and layout.header is None and not is_named):
        return None
    return found.format


def read_texts(
    path: Path | str,
    format: str = "auto",
    text_column: str | None = None,
    encoding: str | None = None,
    *,
    paragraphs: bool = False,
) -> Iterator[str]:
    """Yield the texts of a file, including empty ones.

    Args:
        path: the file.
        format: a table format, "text", or "auto" for the format of the file extension.
        text_column: the column of a table. Detected by name if omitted.
        encoding: UTF-8 if omitted.
        paragraphs: join the lines between blank lines of plain text.
    """
    format = text_format(path, format)
    if format == "text" and not paragraphs:
        with open_text(path, encoding) as lines:
            yield from (line for _, line in lines)
        return
    texts = records.read_texts(path, format=format, text_column=text_column, paragraphs=paragraphs, encoding=encoding)
    yield from (example.text for example in texts)
