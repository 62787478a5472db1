"""Sentences as words: from column files, CoNLL-U, or a list of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.examples import Columns, ConlluRow, ConlluSentence
from catena.errors import DataError
from catena.registry import did_you_mean


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence, and further columns: ``columns[f][i]`` belongs to word ``i``."""

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.words)


def to_sentence(example: Columns | ConlluSentence, columns: Sequence[str] = (), words: str | None = None) -> Sentence:
    """The words of an example and the columns of these names; ``words`` names that of the words, if not the usual."""
    named = words if words is not None else "form" if isinstance(example, ConlluSentence) else "0"
    return Sentence(column_values(example, named), tuple(column_values(example, name) for name in columns))


def column_values(example: Columns | ConlluSentence, name: str) -> tuple[str, ...]:
    """The fields of one column: by its name in CoNLL-U, by its number from 0 in a column file (-1 is the last)."""
    if isinstance(example, ConlluSentence):
        if name not in ConlluRow._fields:
            raise DataError(f"{example.place}: CoNLL-U has no column {name!r}: {did_you_mean(name, ConlluRow._fields)}")
        place = ConlluRow._fields.index(name)
        return tuple(row[place] for row in example.words)
    width = len(example.rows[0])
    try:
        number = int(name)
    except ValueError:
        raise DataError(
            f"{example.place}: the columns of this file have numbers, 0 to {width - 1}, and one is asked for by the "
            f"name {name!r}: give its number (names such as 'upos' are for CoNLL-U)"
        ) from None
    if not -width <= number < width:
        raise DataError(
            f"{example.place}: the file has {width} columns, 0 to {width - 1}, and column {number} is asked for"
        )
    return example.column(number)
