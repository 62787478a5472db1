"""The texts of a file as strings: its lines, or a column of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data import records
from catena.data.detect import UNKNOWN, detect_format
from catena.data.files import open_text, stored_name
from catena.data.tables import TABLE_FORMATS
from catena.errors import FormatError

_FORMATS_BY_SUFFIX = {
    ".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".xlsx": "xlsx",
}  # fmt: skip


def text_format(path: Path | str, format: str = "auto") -> str:
    """The given format. For ``auto``, the format of the file extension, or plain text."""
    if format != "auto":
        return format
    return _FORMATS_BY_SUFFIX.get(Path(stored_name(path)).suffix, "text")


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
