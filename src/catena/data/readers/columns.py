"""Column CoNLL: one token per line with fields separated by tabs or blanks, and a blank line after each sentence.

This is the format of CoNLL-2000, CoNLL-2003 and WNUT. A line of only white space is blank. Sentences of word/TAG, one
in each line as in the Brown corpus, are read here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from catena.data.examples import Columns, SourceLocation
from catena.data.files import open_text
from catena.data.readers.format_rules import are_numbered, begin_with_comments, column_fields, is_column_header
from catena.data.reading import DamagedRecords, ReadCounter

_DOCUMENT_START = "-DOCSTART-"
Separator = Literal["tab", "blank", "slash"]
_PEEKED = 100
"""Number of first sentences that show whether the first column has the numbers of the words."""
_CURE = "Give every row the same fields, and end each sentence with a blank line."


def read(
    path: Path | str,
    *,
    separator: Separator | None = None,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
) -> Iterator[Columns]:
    """Yield one sentence for each block of lines.

    ``-DOCSTART-`` lines, with or without fields, and lines that begin with ``#`` before the first token and
    do not have the fields of a row become comments of the next sentence. A block of comments is not a sentence, and a
    first line with names such as word and tag is not a token. If the first column counts the words of every
    sentence, the second has the words.

    Args:
        path: the file.
        separator: the field separator. By default tabs if most rows have one, otherwise blanks. ``slash`` reads
            sentences of word/TAG.
        encoding: UTF-8 if omitted.
        counter: counts the sentences and lists those with a row of other fields, which are dropped. Without one, such a
            row raises an error.
    """
    if separator == "slash":
        yield from _read_slashed(path, encoding, counter)
        return
    damaged, width = DamagedRecords(path, counter, _CURE), 0
    documents: list[str] = []
    blocks = _blocks(path, encoding)
    first = list(islice(blocks, _PEEKED))
    word = int(_has_numbers(first, separator))
    commented = begin_with_comments([[line for _, line in block] for block in first])
    for block in chain(first, blocks):
        while block and _is_document_start(block[0][1]):
            documents.append(block.pop(0)[1])
        if not block:
            continue
        separator = separator or _separator(block)
        if block[0][0] == 1 and is_column_header(column_fields(block[0][1], separator)):
            block.pop(0)
            if not block:
                continue
        width = width or _width(block, separator)
        while block and _is_comment(block[0][1], separator, -1 if commented else width):
            documents.append(block.pop(0)[1])
        if not block:  # comments at the end of the file
            continue
        damaged.saw()
        rows = [column_fields(line, separator) for _, line in block]
        if (bad := _find_damage(block, rows, width)) is not None:
            number, line = block[bad]
            damaged.add(SourceLocation(str(path), number), *_describe(line, rows[bad], separator, width))
        else:
            written = "\t" if separator == "tab" or width == 1 else " "
            location = SourceLocation(str(path), block[0][0])
            yield Columns(tuple(map(tuple, rows)), location, tuple(documents), written, word)
        documents = []
    damaged.check()


def _blocks(path: Path | str, encoding: str | None) -> Iterator[list[tuple[int, str]]]:
    """Blocks of lines between blank lines. A ``-DOCSTART-`` line ends a block like a blank line."""
    block: list[tuple[int, str]] = []
    with open_text(path, encoding, keep_nuls=True) as lines:
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


def _has_numbers(blocks: Sequence[list[tuple[int, str]]], separator: Separator | None) -> bool:
    plain = [[line for _, line in block if not line.startswith(("#", _DOCUMENT_START))] for block in blocks]
    split = [
        [column_fields(line, separator or _separator(block)) for line in lines]
        for lines, block in zip(plain, blocks, strict=True)
        if lines
    ]
    return are_numbered(split)


def _is_document_start(line: str) -> bool:
    return line.startswith(_DOCUMENT_START) and line.split(None, 1)[0] == _DOCUMENT_START


def _plain(block: list[tuple[int, str]]) -> list[str]:
    """The lines that cannot be comments, or all lines if every line may be one."""
    return [line for _, line in block if not line.startswith("#")] or [line for _, line in block]


def _separator(block: list[tuple[int, str]]) -> Separator:
    return "tab" if all("\t" in line.rstrip(" \t") for line in _plain(block)) else "blank"


def _width(block: list[tuple[int, str]], separator: Separator) -> int:
    """The number of fields of most rows."""
    return Counter(len(column_fields(line, separator)) for line in _plain(block)).most_common(1)[0][0]


def _is_comment(line: str, separator: Separator, width: int) -> bool:
    is_row = len(column_fields(line, separator)) == width if width >= 0 else not line.startswith("# ")
    return line.startswith("#") and not is_row


def _find_damage(block: list[tuple[int, str]], rows: list[list[str]], width: int) -> int | None:
    """The index of the first row that has other fields than the first sentence, or a NUL byte."""
    for i, ((_, line), row) in enumerate(zip(block, rows, strict=True)):
        if len(row) != width or not row[0] or "\0" in line:
            return i
    return None


def _describe(line: str, fields: list[str], separator: Separator, width: int) -> tuple[str, str, str]:
    """The reason to drop a sentence, the line, and its problem."""
    if "\0" in line:
        return "with a NUL byte", line, "has a NUL byte"
    if len(fields) == width:
        return "with no word before the first tab of a row", line, "has no token before its first tab"
    many = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
    problem = f"must have {width} {separator}-separated fields as in the first sentence, got {len(fields)}"
    return f"with a row of {many} instead of {width}", line, problem


def _read_slashed(path: Path | str, encoding: str | None, counter: ReadCounter | None) -> Iterator[Columns]:
    damaged = DamagedRecords(path, counter, "Write every word as word/TAG.")
    with open_text(path, encoding) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            location = SourceLocation(str(path), number)
            damaged.saw()
            parts = [word.rpartition("/") for word in line.split()]
            if all(word and tag for word, _, tag in parts):
                yield Columns(tuple((word, tag) for word, _, tag in parts), location)
            else:
                damaged.add(location, "with a word without /TAG", line)
    damaged.check()
