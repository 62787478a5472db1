"""Pronouncing dictionaries in the format of CMUdict: a word, blanks, and its phonemes.

``tomato  T AH0 M EY1 T OW2`` and, for another pronunciation, ``tomato(2)  T AH0 M AA1 T OW2``. Lines that begin with
``;;;`` and text after a separate ``#`` are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from catena.data.examples import ParallelText, SourceLocation
from catena.data.files import open_text
from catena.data.readers.format import Format
from catena.data.readers.format_rules import dictionary_sign

_VARIANT = re.compile(r"(?<=.)\(\d+\)$")
_COMMENT = re.compile(r"\s#(\s.*)?$")


def read(path: Path | str, *, encoding: str | None = None) -> Iterator[ParallelText]:
    """Yield a word and its phonemes, separated by single blanks, for each line, without variant numbers.

    A blank line or a word without phonemes gives a pair with an empty side, which the caller may drop.
    """
    with open_text(path, encoding) as lines:
        for number, line in lines:
            if line.startswith(";;;"):
                continue
            word, *phonemes = _COMMENT.sub("", line).split() or [""]
            yield ParallelText(_VARIANT.sub("", word), " ".join(phonemes), SourceLocation(str(path), number))


FORMAT = Format("dictionary", "pronouncing dictionary", ParallelText, read, dictionary_sign)
