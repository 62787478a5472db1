"""Column CoNLL: one token per line with fields separated by tabs or blanks, and a blank line after each sentence.

This is the format of CoNLL-2000, CoNLL-2003 and WNUT. A line of only white space is blank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from catena.data.examples import Columns, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import column_fields, columns_sign, hint
from catena.errors import FormatError

_DOCUMENT_START = "-DOCSTART-"
_Separator = Literal["tab", "blank"]


def read(path: Path | str, *, separator: _Separator | None = None, encoding: str | None = None) -> Iterator[Columns]:
    """Yield one sentence for each block of lines.

    ``-DOCSTART-`` lines, with or without fields, and lines that begin with ``#`` before the first token and
    do not have the fields of a row become comments of the next sentence.

    Args:
        path: the file.
        separator: the field separator. By default tabs if every row of the first sentence has one, otherwise blanks.
        encoding: UTF-8 if omitted.
    """
    width = 0
    documents: list[str] = []
    for block in _blocks(path, encoding):
        while block and _is_document_start(block[0][1]):
            documents.append(block.pop(0)[1])
        if not block:
            continue
        separator = separator or _separator(block)
        width = width or _width(block, separator)
        comments = []
        while len(block) > 1 and _is_comment(block[0][1], separator, width):
            comments.append(block.pop(0)[1])
        rows = tuple(_row(path, number, line, separator, width) for number, line in block)
        written = "\t" if separator == "tab" or width == 1 else " "
        yield Columns(rows, SourceLocation(str(path), block[0][0]), (*documents, *comments), written)
        documents = []


def _blocks(path: Path | str, encoding: str | None) -> Iterator[list[tuple[int, str]]]:
    """Blocks of lines between blank lines. A ``-DOCSTART-`` line ends a block like a blank line."""
    block: list[tuple[int, str]] = []
    with open_text(path, encoding) as lines:
        for number, line in lines:
            is_start = _is_document_start(line)
            if block and (is_start or not line.strip()):
                yield block
                block = []
            if is_start:
                yield [(number, line)]
            elif line.strip():
                block.append((number, line))
    if block:
        yield block


def _is_document_start(line: str) -> bool:
    return line.startswith(_DOCUMENT_START) and line.split(None, 1)[0] == _DOCUMENT_START


def _plain(block: list[tuple[int, str]]) -> list[str]:
    """The lines that cannot be comments, or all lines if every line may be one."""
    return [line for _, line in block if not line.startswith("#")] or [line for _, line in block]


def _separator(block: list[tuple[int, str]]) -> _Separator:
    return "tab" if all("\t" in line.rstrip(" \t") for line in _plain(block)) else "blank"


def _width(block: list[tuple[int, str]], separator: _Separator) -> int:
    """The number of fields of most rows."""
    return Counter(len(column_fields(line, separator)) for line in _plain(block)).most_common(1)[0][0]


def _is_comment(line: str, separator: _Separator, width: int) -> bool:
    return line.startswith("#") and len(column_fields(line, separator)) != width


def _row(path: Path | str, number: int, line: str, separator: _Separator, width: int) -> tuple[str, ...]:
    fields = column_fields(line, separator)
    if len(fields) == width and fields[0]:
        return tuple(fields)
    raise _ragged(path, number, line, fields, separator, width)


def _ragged(
    path: Path | str, number: int, line: str, fields: list[str], separator: _Separator, width: int
) -> FormatError:
    problem = f"must have {width} {separator}-separated fields as in the first sentence, got {len(fields)}"
    if len(fields) == width:
        problem = "has no token before its first tab"
    cure = "Give every row the same fields, and end each sentence with a blank line. " + hint(path, "columns")
    return bad_line(path, number, line, problem, cure)


FORMAT = Format("columns", "column CoNLL", Columns, read, columns_sign)
