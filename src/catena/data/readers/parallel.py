"""Parallel text in two files, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import ParallelText, SourceLocation
from catena.data.files import open_text
from catena.data.pairing import likely_break
from catena.data.reading import ReadCounter
from catena.errors import FormatError


def read_parallel(
    path: Path | str,
    target: Path | str,
    encoding: str | None = None,
    counter: ReadCounter | None = None,
    keep_empty: bool = False,
) -> Iterator[ParallelText]:
    """Yield one pair for each line.

    Args:
        path: the sources.
        target: the targets, with as many lines as ``path``.
        encoding: encoding of both files. UTF-8 if omitted.
        counter: counts the pairs and lists those with an empty side, which are dropped.
        keep_empty: yield pairs with an empty side as well. They are always yielded without a counter.
    """
    with open_text(path, encoding) as sources, open_text(target, encoding) as targets:
        for number, source in sources:
            pair = next(targets, None)
            if pair is None:
                raise _uneven(path, target, encoding)
            found = ParallelText(source, pair[1], SourceLocation(str(path), number))
            if counter is not None:
                counter.saw()
            if counter is None or keep_empty or (source.strip() and pair[1].strip()):
                yield found
            else:
                side = "target" if source.strip() else "source"
                counter.drop(f"with an empty {side}", found.location, f"{source}\t{pair[1]}")
        if next(targets, None) is not None:
            raise _uneven(path, target, encoding)


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
