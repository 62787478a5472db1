"""Formats with one record in each line and no columns: texts, texts after their labels, pronouncing dictionaries.

text        one text in each line; with ``paragraphs``, the lines between blank lines are one text
first-word  a label, a blank and a text, as in the data sets of Kim (2014): ``0 simplistic , silly and tedious .``
fasttext    any number of ``__label__x`` before the text or after it
dictionary  a word and its phonemes, as in CMUdict: ``tomato(2)  T AH0 M AA1 T OW2``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catena.data.examples import SourceLocation
from catena.data.files import open_text, split_blocks
from catena.data.readers.delimited import EMPTY, Row

PREFIX = "__label__"
"""Prefix of labels in the files of fastText."""
_BLANK = re.compile(r"[ \t]+")
_VARIANT = re.compile(r"(?<=.)\(\d+\)$")
_COMMENT = re.compile(r"\s#(\s.*)?$")
_NUMERIC = re.compile(r"[-+]?\d{1,3}")


def read(
    path: Path, format: str, encoding: str | None = None, *, numeric: bool = False, paragraphs: bool = False
) -> Iterator[Row]:
    """The records of a file.

    Args:
        path: the file.
        format: text, first-word, fasttext or dictionary.
        encoding: UTF-8 if omitted.
        numeric: whether all labels of first-word are integers, so that a line that begins otherwise has none.
        paragraphs: join the lines between blank lines of text.
    """
    with open_text(path, encoding, keep_nuls=True) as lines:
        if paragraphs and format == "text":
            for block in split_blocks(lines):
                text = " ".join(line.strip() for _, line in block)
                yield Row(SourceLocation(str(path), block[0][0]), {"text": text}, text)
            return
        for number, line in lines:
            location = SourceLocation(str(path), number)
            if "\0" in line:
                yield Row(location, {}, line, "with a NUL byte", damaged=True)
            elif format == "dictionary" and line.startswith(";;;"):
                continue
            elif not line.strip():
                yield Row(location, {}, line, EMPTY)
            else:
                values, problem = parse(line, format, numeric)
                yield Row(location, values, line, problem, damaged=problem is not None)


def parse(line: str, format: str, numeric: bool = False) -> tuple[dict[str, Any], str | None]:
    """The values of a line that is not blank, and its problem, if any."""
    if format == "first-word":
        return _first_word(line, numeric)
    if format == "fasttext":
        return _fasttext(line)
    if format == "dictionary":
        word, *phonemes = _COMMENT.sub("", line).split() or [""]
        return {"source": _VARIANT.sub("", word), "target": " ".join(phonemes)}, None
    return {"text": line}, None


def _first_word(line: str, numeric: bool) -> tuple[dict[str, Any], str | None]:
    if line[0].isspace():
        return {"text": line}, "with a blank instead of a label at the beginning"
    label, *rest = _BLANK.split(line, maxsplit=1)
    if numeric and not _NUMERIC.fullmatch(label):
        return {"text": line}, "without a number, the label, at the beginning"
    return {"label": label, "text": "".join(rest).strip()}, None


def _fasttext(line: str) -> tuple[dict[str, Any], str | None]:
    rest, labels = line.strip(), []
    while rest.startswith(PREFIX):
        parts = rest.split(None, 1)
        labels.append(parts[0].removeprefix(PREFIX))
        rest = parts[1] if len(parts) > 1 else ""
    while (last := rest.rsplit(None, 1)) and last[-1].startswith(PREFIX):
        labels.append(last[-1].removeprefix(PREFIX))
        rest = last[0] if len(last) > 1 else ""
    if not labels:
        return {"text": rest}, f"without {PREFIX} at the beginning or the end"
    if not all(labels):
        return {"text": rest}, f"without a name after {PREFIX}"
    return {"label": list(dict.fromkeys(labels)), "text": rest}, None
