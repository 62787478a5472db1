"""The texts of a file without anything beside them: its lines, or what a column of a table holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.detect import read_examples
from catena.data.files import open_text

_FORMATS_BY_SUFFIX = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
_COMPRESSED = {".gz", ".xz", ".bz2"}


def text_format(path: Path | str, format: str = "auto") -> str:
    """The format that is named, or for ``auto`` that of the file's suffix: plain text where no table is written so."""
    if format != "auto":
        return format
    path = Path(path)
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return _FORMATS_BY_SUFFIX.get(plain.suffix.lower(), "text")


def read_texts(
    path: Path | str, format: str = "auto", text_column: str | None = None, encoding: str | None = None
) -> Iterator[str]:
    """Yield the texts of a file; the column of a table is found by its name where none is told."""
    format = text_format(path, format)
    if format == "text":
        with open_text(path, encoding) as lines:
            yield from (line for _, line in lines)
        return
    options = {} if text_column is None else {"text_column": text_column}
    examples = read_examples(path, format, options=options, encoding=encoding, labeled=False)
    yield from (example.text for example in examples)
