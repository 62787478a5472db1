"""Paragraphs of files and folders: blocks of text between blank lines, with their offsets in the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.reading import ReadCounter
from catena.errors import DataError, FormatError

_BLOCK = re.compile(r"[^\S\n]*\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")
"""Successive lines that are not blank."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A block of text. ``start`` is its first character in the decoded text of the file, with ``\\n`` as line end."""

    text: str
    file: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """The index after its last character."""
        return self.start + len(self.text)


def split_paragraphs(text: str, file: str = "") -> Iterator[Paragraph]:
    """The blocks of a text between blank lines, without blanks at their ends."""
    line = 1
    at = 0
    for match in _BLOCK.finditer(text):
        block = match[0]
        start = match.start() + len(block) - len(block.lstrip())
        line += text.count("\n", at, start)
        at = start
        yield Paragraph(block.strip(), file, start, line)


def read_paragraphs(
    path: Path | str, counter: ReadCounter | None = None, *, encoding: str | None = None
) -> list[Paragraph]:
    """The paragraphs of a file, or of all text files in a folder and its subfolders, sorted by path.

    Files in a folder that are not text are counted as dropped. Hidden files and folders are skipped.

    Args:
        path: a file or folder.
        counter: counts files.
        encoding: UTF-8 if omitted.

    Raises:
        FormatError: if ``path`` is a file that is not text.
        DataError: if there is no paragraph.
    """
    path, counter = Path(path), counter or ReadCounter()
    found: list[Paragraph] = []
    for file in _files(path):
        counter.saw()
        try:
            with open_text(file, encoding) as lines:
                text = "\n".join(line for _, line in lines)
        except FormatError as error:
            if file == path:
                raise
            counter.drop("not text", SourceLocation(str(file), 1), str(error))
            continue
        found.extend(split_paragraphs(text, str(file)))
    if not found:
        raise DataError(
            f"{path} has no paragraph of text: {counter.counts(counter.used).sentence('')}. Add a text file."
        )
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))
