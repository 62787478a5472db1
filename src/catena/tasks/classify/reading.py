"""The texts of a file to predict, and read options that differ from the training files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from catena.data.detect import detect_format, read_examples
from catena.data.readers.brackets import read as read_trees
from catena.data.readers.table import FORMATS
from catena.errors import FormatError
from catena.tasks.application import ReadOptions
from catena.tasks.classify.config import ClassifyDataConfig

_LABEL_IN_FRONT = ("kim", "tsv-label", "fasttext")
_SENTENCES = ("conllu", "columns")
_WITH_COLUMNS = ("csv", "tsv", "jsonl", "parquet", "datasets")


def apply_read_options(data: ClassifyDataConfig, reading: ReadOptions) -> ClassifyDataConfig:
    """The data config of training with the user's read options applied."""
    return data.model_copy(update={key: value for key, value in vars(reading).items() if value is not None})


def read_texts(path: Path, reading: ReadOptions, data: ClassifyDataConfig, labels: Collection[str]) -> Iterator[str]:
    """All texts of a file, in the given or detected format.

    Args:
        path: the file.
        reading: the read options of the user.
        data: the data config of training.
        labels: the classes of the model.
    """
    format = reading.format or _format_of(path, reading, data, labels)
    if format == "brackets":
        yield from (" ".join(tree.words()) for tree in read_trees(path, encoding=reading.encoding))
        return
    column = (reading.text_column or data.text_column) if format in _WITH_COLUMNS else reading.text_column
    yield from (
        example.text
        for example in read_examples(
            path,
            reading.format or ("text" if format == "text" else None),  # detected again, with its header, quotes, …
            options={} if column is None else {"text_column": column},
            labeled=False,
            encoding=reading.encoding,
        )
    )


def _format_of(path: Path, reading: ReadOptions, data: ClassifyDataConfig, labels: Collection[str]) -> str:
    """The format to read a file in.

    The first word of a line counts as a label if the model has such a label.
    """
    found = detect_format(path, reading.encoding)
    if found.format in _LABEL_IN_FRONT:
        split = data.label_separator is not None and found.format != "fasttext"
        options = {"separator": data.label_separator} if split else {}
        first = next(read_examples(path, options=options, encoding=reading.encoding), None)
        return found.format if first and set(first.labels) <= set(labels) else "text"
    if found.format in _SENTENCES:
        raise FormatError(
            f"{path} is {FORMATS[found.format].title} ({found.why}), not a file of texts. Use --input-format text to "
            f"read each of its lines as a text."
        )
    return found.format if found.format in (*_WITH_COLUMNS, "brackets") else "text"
