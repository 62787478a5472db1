"""The texts of a file: its lines, or a column of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.detect import read_examples
from catena.data.files import open_text

_FORMATS_BY_SUFFIX = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
_COMPRESSED = {".gz", ".xz", ".bz2"}


def text_format(path: Path | str, format: str = "auto") -> str:
    """The given format. For ``auto``, the format of the file extension, or plain text."""
    if format != "auto":
        return format
    path = Path(path)
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return _FORMATS_BY_SUFFIX.get(plain.suffix.lower(), "text")


def read_texts(
    path: Path | str, format: str = "auto", text_column: str | None = None, encoding: str | None = None
) -> Iterator[str]:
    """Yield the texts of a file.

    Args:
        path: the file.
        format: a table format, "text", or "auto" for the format of the file extension.
        text_column: the column of a table. Detected by name if omitted.
        encoding: UTF-8 if omitted.
    """
    format = text_format(path, format)
    if format == "text":
        with open_text(path, encoding) as lines:
            yield from (line for _, line in lines)
        return
    options = {} if text_column is None else {"text_column": text_column}
    examples = read_examples(path, format, options=options, encoding=encoding, labeled=False)
    yield from (example.text for example in examples)
