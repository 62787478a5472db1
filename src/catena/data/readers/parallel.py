"""Parallel text: two files line by line, or one file with a tab between source and target.

Other tables are read by :mod:`~catena.data.readers.paired`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import ParallelText, SourceLocation
from catena.data.files import bad_line, open_text
from catena.data.pairing import likely_break
from catena.data.readers.format import Format
from catena.data.readers.format_rules import hint, parallel_sign
from catena.errors import FormatError


def read(path: Path | str, target: Path | str | None = None, *, encoding: str | None = None) -> Iterator[ParallelText]:
    """Yield one pair for each line, including blank sides, which the caller may drop.

    Args:
        path: the sources, or lines of ``source<TAB>target`` if there is no second file.
        target: the targets, with as many lines as ``path``.
        encoding: encoding of both files. UTF-8 if omitted.
    """
    if target is None:
        yield from _read_tabbed(path, encoding)
        return
    with open_text(path, encoding) as sources, open_text(target, encoding) as targets:
        for number, source in sources:
            pair = next(targets, None)
            if pair is None:
                raise _uneven(path, target, encoding)
            yield ParallelText(source, pair[1], SourceLocation(str(path), number))
        if next(targets, None) is not None:
            raise _uneven(path, target, encoding)


def _read_tabbed(path: Path | str, encoding: str | None) -> Iterator[ParallelText]:
    with open_text(path, encoding) as lines:
        for number, line in lines:
            place = SourceLocation(str(path), number)
            fields = line.split("\t")
            if not line.strip():
                fields = ["", ""]
            if len(fields) != 2:
                cure = "Write every line as source<TAB>target, or pass the targets as a second file. "
                problem = f"must have 2 tab-separated fields, got {len(fields)}"
                raise bad_line(path, number, line, problem, cure + hint(path, "parallel"))
            yield ParallelText(fields[0], fields[1], place)


def _uneven(path: Path | str, target: Path | str, encoding: str | None) -> FormatError:
    """The error for two files with different numbers of lines, with the line where they probably misalign."""
    lengths = []
    for file in (path, target):
        with open_text(file, encoding) as lines:
            lengths.append([len(line) for _, line in lines])
    (n, m), (shorter, longer) = map(len, lengths), sorted(lengths, key=len)
    extra, place = len(longer) - len(shorter), likely_break(shorter, longer)
    where = path if n > m else target
    those = f"line {place + 1} is" if extra == 1 else f"lines {place + 1} to {place + extra} are"
    return FormatError(
        f"{path} has {n:,} lines and {target} has {m:,}: they must be parallel line by line. By the lengths of the "
        f"lines, they probably misalign at line {place + 1}, where "
        f"{those} extra in {where}. Look there for a line that was split or lost."
    )


FORMAT = Format("parallel", "parallel text", ParallelText, read, parallel_sign)
