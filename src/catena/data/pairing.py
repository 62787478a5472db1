"""Pairs of texts: whether they are sentences, which first lines are none, and where two files that should match line by
line come apart.

Lines that belong together are of like length. If the longer file has d lines too many, which stand together after line
p, then its lines behind them belong to those d lines before: the p that leaves the lengths most alike is the likely
place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import regex

from catena.data.files import open_text

SENTENCE = 3.0
"""Words of a text, on average, from which on pairs are sentences rather than words."""
HEADERS = (
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"), ("text", "summary"),
    ("word", "pronunciation"),
)  # fmt: skip
"""Names of columns that a first line may hold in place of a pair; either side may come first."""
SAMPLE = 500
"""Lines that are looked at."""
_NO_BLANKS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


def names_columns(fields: Sequence[str]) -> bool:
    """Whether the fields of a first line are the names of the columns."""
    names = tuple(field.strip().casefold() for field in fields)
    return any(names in (pair, pair[::-1]) for pair in HEADERS)


def sources_of_lines(lines: Iterable[str], swap: bool = False) -> Iterator[str]:
    """The sources of lines: each line, or of one with a tab what stands before it, behind it if columns are swapped. A
    first line that names the columns is none."""
    for number, line in enumerate(lines):
        fields = line.split("\t")
        if number or not names_columns(fields):
            yield fields[-1 if swap else 0]


def are_sentences(path: Path, encoding: str | None = None) -> bool:
    """Whether both columns of a file of pairs hold sentences, by the mean number of words.

    Of scripts without blanks two characters count as a word.
    """
    with open_text(path, encoding) as lines:
        rows = [line.split("\t") for _, line in islice(lines, SAMPLE) if line.count("\t") == 1]
    return bool(rows) and min(_mean_words(row[side] for row in rows) for side in (0, 1)) >= SENTENCE


def _mean_words(texts: Iterable[str]) -> float:
    counted = [max(len(text.split()), len(_NO_BLANKS.findall(text)) / 2) for text in texts]
    return float(np.mean(counted))


def likely_break(shorter: Sequence[int], longer: Sequence[int]) -> int:
    """After how many lines the longer file has lines that the shorter one lacks. Time O(n).

    Args:
        shorter: the lengths of the lines of one file.
        longer: those of the other, which has more lines.
    """
    a, b = (np.log1p(np.asarray(lengths, np.float64)) for lengths in (shorter, longer))
    n, extra = len(a), len(b) - len(a)
    ratio = float(np.median(b) - np.median(a)) if n else 0.0
    before = np.abs(b[:n] - a - ratio)  # if nothing is missing up to here
    behind = np.abs(b[extra : extra + n] - a - ratio)
    cost = np.concatenate(([0.0], np.cumsum(before))) + np.concatenate((np.cumsum(behind[::-1])[::-1], [0.0]))
    return int(cost.argmin())
