"""Pairs of texts in lines of one file or of two: their headers and sources, and where parallel files misalign.

Parallel lines have similar lengths. If the longer file has d extra lines in one block after line p, then its later
lines are parallel to lines d positions earlier in the other file. The p with the most similar lengths is the likely
position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from catena.data.examples import ParallelText, SourceLocation
from catena.data.files import open_text
from catena.data.reading import ReadCounter
from catena.data.roles import find_pair, may_name_pair, names_pair
from catena.data.values import SENTENCE, mean_words
from catena.errors import FormatError

T = TypeVar("T")

_SAMPLE = 500
"""Number of lines that are examined."""


def part_header(items: Iterable[T], fields_of: Callable[[T], Sequence[str]]) -> tuple[T | None, Iterator[T]]:
    """The header if the first item is one, otherwise None, and the items that are pairs.

    Ambiguous names are a header if at least one side of the lines below has sentences, and neither these names nor
    other single words occur below. If in doubt, a line is a pair.
    """
    rest = iter(items)
    for first in rest:
        if names_pair(fields_of(first)):
            return first, rest
        if not may_name_pair(fields_of(first)):
            return None, chain([first], rest)
        below = [*islice(rest, _SAMPLE)]
        if is_above_sentences(fields_of(first), [fields_of(item) for item in below]):
            return first, chain(below, rest)
        return None, chain([first], below, rest)
    return None, iter(())


def is_above_sentences(header: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Whether names that may be a pair are a header: a side below has sentences, and no row has only single words."""
    rows = [row for row in body if len(row) == len(header) and all(value.strip() for value in row)]
    if not rows or any(list(row) == list(header) or all(map(_is_word, row)) for row in rows):
        return False
    return max(mean_words(row[side] for row in rows) for side in (0, 1)) >= SENTENCE


def _is_word(text: str) -> bool:
    """Whether a text is one word without a period, in a script with blanks."""
    return text.strip().isalpha() and mean_words([text]) <= 1


def sources_of_lines(lines: Iterable[str], swap: bool = False) -> Iterator[str]:
    """The sources of lines: each line, or the part before its tab (after it if the columns are swapped).

    A header line is dropped.
    """
    header, rows = part_header((line.split("\t") for line in lines), list)
    left, right = (header and find_pair(header)) or (0, -1)
    yield from (fields[(right if swap else left) if len(fields) > 1 else 0] for fields in rows)


def likely_break(shorter: Sequence[int], longer: Sequence[int]) -> int:
    """The number of lines after which the longer file has lines that the shorter one lacks. Time O(n).

    Of the places that fit equally well, the last one, so that lines at the end are extra if the lengths do not differ.

    Args:
        shorter: the lengths of the lines of the shorter file.
        longer: the lengths of the lines of the longer file.
    """
    a, b = (np.log1p(np.asarray(lengths, np.float64)) for lengths in (shorter, longer))
    n, extra = len(a), len(b) - len(a)
    ratio = float(np.median(b) - np.median(a)) if n else 0.0
    before = np.abs(b[:n] - a - ratio)  # if nothing is missing up to here
    behind = np.abs(b[extra : extra + n] - a - ratio)
    cost = np.concatenate(([0.0], np.cumsum(before))) + np.concatenate((np.cumsum(behind[::-1])[::-1], [0.0]))
    return int(np.flatnonzero(cost <= cost.min() + 1e-9)[-1])  # sums of floats differ by rounding


# --- files ------------------------------------------------------------------------------------------------------------


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
