"""The texts of a file as strings: its lines, or a column of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data import records
from catena.data.files import open_text, stored_name

_FORMATS_BY_SUFFIX = {
    ".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".xlsx": "xlsx",
}  # fmt: skip


def text_format(path: Path | str, format: str = "auto") -> str:
    """The given format. For ``auto``, the format of the file extension, or plain text."""
    if format != "auto":
        return format
    return _FORMATS_BY_SUFFIX.get(Path(stored_name(path)).suffix, "text")


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
