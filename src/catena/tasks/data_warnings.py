"""Warnings about dev and test data: records of the training data, and labels that training never showed.

Files are compared by their records: blocks between blank lines, as in CoNLL files, or lines. Memory grows with the dev
and test files only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from catena.data.files import open_text
from catena.errors import CatenaError

_MIN_CHARACTERS = 20
"""Shorter records, such as "yes" in a dialogue, are skipped unless most records of a file are short."""
_MIN_FRACTION = 0.2
"""The fraction of a file's records that triggers a warning."""
_LONGEST_BLOCK = 100
"""Blocks with more lines on average count as single lines with a few blank lines between them."""


def overlap_warnings(files: Mapping[str, Path], encoding: str | None = None) -> list[str]:
    """Return a warning for each dev and test file with many records that occur in the training files.

    Args:
        files: the data files by their role; names begin with train, dev or test.
        encoding: the encoding of the files if it is not UTF-8.
    """
    train = [path for name, path in files.items() if name.startswith("train") and "target" not in name]
    found = []
    for name, path in files.items():
        if name.startswith(("dev", "test")) and "target" not in name:
            try:
                line = _warning(name.partition("-")[0], path, train, encoding)
            except (CatenaError, OSError):
                continue  # a binary format, or a broken file, which the reader reports
            found += [line] if line else []
    return found


def _warning(part: str, path: Path, train: list[Path], encoding: str | None) -> str | None:
    cure = f"Scores on {part} do not measure how well the model does on new data. Give another file with --{part}."
    if any(path.resolve() == other.resolve() for other in train):
        return f"warning: {part} is a training file ({path}). {cure}"
    if _is_document(path, encoding):
        return None
    blocks = _has_blocks(path, encoding)
    records = dict.fromkeys(map(hash, _long_enough(path, encoding, blocks)), False)
    for other in train:
        for record in map(hash, _records(other, encoding, blocks)):
            if record in records:
                records[record] = True
    n, shared = len(records), sum(records.values())
    if not n or shared < _MIN_FRACTION * n:
        return None
    return f"warning: {shared:,} of the {n:,} different records of {part} ({path}) are in the training data too. {cure}"


def _is_document(path: Path, encoding: str | None) -> bool:
    """Whether a file is one JSON document, whose lines are not records."""
    first = next(_blocks(path, encoding), [""])[0]
    return first.startswith(("{", "[")) and not first.endswith(("}", "]"))


def _has_blocks(path: Path, encoding: str | None) -> bool:
    """Whether blank lines separate records of several lines."""
    lines = blocks = 0
    for lines_of_block in _blocks(path, encoding):
        lines += len(lines_of_block)
        blocks += 1
    return blocks > 1 and lines / blocks <= _LONGEST_BLOCK


def _long_enough(path: Path, encoding: str | None, blocks: bool) -> list[str]:
    """The distinct records of a file, without short ones unless most are short."""
    records = list(dict.fromkeys(_records(path, encoding, blocks)))
    long = [record for record in records if len(record) >= _MIN_CHARACTERS]
    return long if 2 * len(long) >= len(records) else records


def _records(path: Path, encoding: str | None, blocks: bool) -> Iterator[str]:
    for lines in _blocks(path, encoding):
        yield from ("\n".join(lines),) if blocks else lines


def _blocks(path: Path, encoding: str | None) -> Iterator[list[str]]:
    with open_text(path, encoding) as numbered:
        lines = (line.strip() for _, line in numbered)
        for filled, block in groupby(lines, key=bool):
            if filled:
                yield list(block)


def unseen_line(counts: Mapping[str, int], where: str, what: str) -> str | None:
    """Return a line about gold labels that no training example has, or None if ``counts`` is empty.

    Args:
        counts: how often each such label occurs.
        where: the data it occurs in, such as ``"this file"``.
        what: what is counted, such as ``"words have a tag"``.
    """
    if not counts:
        return None
    shown = ", ".join(f"{label!r} {count:,}" for label, count in Counter(counts).most_common(5))
    return (
        f"{where}: {sum(counts.values()):,} {what} that training never showed ({shown}"
        f"{', …' if len(counts) > 5 else ''}); they count as errors"
    )
