"""Sentences of words from column files, CoNLL-U or lists of words. Imports no torch, as feature taggers need none.

Tested in tests/tasks/word_inputs/test_encoding.py and tests/tasks/word_inputs/test_model.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena.data.examples import Columns, ConlluRow, ConlluSentence
from catena.errors import DataError
from catena.registry import did_you_mean


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence and its further columns; ``columns[f][i]`` is the value of word ``i``."""

    words: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.words)


def to_sentence(example: Columns | ConlluSentence, columns: Sequence[str] = (), words: str | None = None) -> Sentence:
    """The words and further columns of an example.

    Args:
        example: a sentence of a column file or of CoNLL-U.
        columns: names or numbers of the further columns.
        words: name or number of the column of words; the default of the format if None.
    """
    named = words if words is not None else "form" if isinstance(example, ConlluSentence) else str(example.word)
    return Sentence(column_values(example, named), tuple(column_values(example, name) for name in columns))


def column_values(example: Columns | ConlluSentence, name: str) -> tuple[str, ...]:
    """The values of one column, given by name in CoNLL-U or by number from 0 in a column file (-1 is the last)."""
    if isinstance(example, ConlluSentence):
        if name not in ConlluRow._fields:
            raise DataError(
                f"{example.location}: unknown CoNLL-U column {name!r}: {did_you_mean(name, ConlluRow._fields)}"
            )
        place = ConlluRow._fields.index(name)
        return tuple(row[place] for row in example.words)
    width = len(example.rows[0])
    try:
        number = int(name)
    except ValueError:
        raise DataError(
            f"{example.location}: a column must be a number from 0 to {width - 1}, got the name {name!r}. Pass its "
            f"number; names such as 'upos' are only for CoNLL-U."
        ) from None
    if not -width <= number < width:
        raise DataError(
            f"{example.location}: a column must be a number from 0 to {width - 1}, got {number}. Pass one of the file."
        )
    return example.column(number)
