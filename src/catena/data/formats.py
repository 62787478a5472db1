"""All file formats by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from catena.data.examples import Columns, ConlluSentence, Text, Tree
from catena.data.readers import brackets, conllu
from catena.data.readers.vectors import read_vectors
from catena.data.records import Record, read_records, read_texts
from catena.data.tables import RECORD_FORMATS
from catena.data.token_tables import read_columns
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
}

FORMATS: Registry[Format] = Registry("format")


def _read_text(path: Path | str, *, encoding: str | None = None, **options: Any) -> Iterator[Text]:
    yield from read_texts(path, format="text", encoding=encoding, **options)


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
