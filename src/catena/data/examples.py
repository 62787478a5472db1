"""What the readers yield: plain frozen values that remember the line they came from.

Knows nothing of files: a :class:`SourceLocation` is made by a reader and only printed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file, counted from 1 (a row of a table that has no lines). Prints as ``train.tsv:17``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Text:
    """One line of plain text, as it stands."""

    text: str
    place: SourceLocation


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text and its labels: one label is a tuple of one; none for a text whose label is to be predicted."""

    text: str
    labels: tuple[str, ...]
    place: SourceLocation


@dataclass(frozen=True, slots=True)
class ParallelText:
    """A text and its counterpart: a sentence and its translation, a word and its pronunciation."""

    source: str
    target: str
    place: SourceLocation


@dataclass(frozen=True, slots=True)
class Columns:
    """One sentence of a column file. ``rows[i][j]`` is field ``j`` of token ``i``; all rows have the same
    length.

    ``place`` is the line of the first row, so token ``i`` stands in line ``place.line + i``. ``comments`` are
    the lines that stood before it and are no tokens: ``-DOCSTART-`` lines and lines that begin with ``#``.
    ``separator`` is what parted its fields, for writing it again.
    """

    rows: tuple[tuple[str, ...], ...]
    place: SourceLocation
    comments: tuple[str, ...] = ()
    separator: str = field(default="\t", compare=False)

    def column(self, j: int) -> tuple[str, ...]:
        """Field ``j`` of every token; ``-1`` is the last, which usually holds the tag."""
        return tuple(row[j] for row in self.rows)


class ConlluRow(NamedTuple):
    """The ten fields of a CoNLL-U line, as they stand: ``_`` is kept."""

    id: str
    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str
    head: str
    deprel: str
    deps: str
    misc: str


@dataclass(frozen=True, slots=True)
class ConlluSentence:
    """One sentence of a CoNLL-U file: every row in the order of the file, and the comment lines before them.

    ``place`` is the line of the first row.
    """

    rows: tuple[ConlluRow, ...]
    comments: tuple[str, ...]
    place: SourceLocation

    @property
    def words(self) -> tuple[ConlluRow, ...]:
        """The syntactic words, ids 1, 2, 3 …: what a parser gives heads to."""
        return tuple(row for row in self.rows if row.id.isdecimal())

    @property
    def multiwords(self) -> tuple[ConlluRow, ...]:
        """The ranges, such as ``3-4``: surface tokens that stand for several words."""
        return tuple(row for row in self.rows if "-" in row.id)

    @property
    def empty_nodes(self) -> tuple[ConlluRow, ...]:
        """The nodes of the enhanced graph that have no surface, such as ``5.1``."""
        return tuple(row for row in self.rows if "." in row.id)

    def comment(self, key: str) -> str | None:
        """The value of a ``# key = value`` comment, such as ``text`` or ``sent_id``; None if there is none."""
        for line in self.comments:
            name, equals, value = line[1:].partition("=")
            if equals and name.strip() == key:
                return value.strip()
        return None


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of a phrase-structure tree: either a word under its tag, or a label over children.

    The outer bracket of the Penn Treebank, ``( (S …))``, is a node with the label "". Words are as in the
    file, where ``-LRB-`` stands for a bracket.
    """

    label: str
    children: tuple[Tree, ...]
    word: str | None
    place: SourceLocation

    def leaves(self) -> Iterator[Tree]:
        """The nodes that hold a word, from left to right. Trees may be deeper than Python's stack, so there is none."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node.word is not None:
                yield node
            waiting.extend(reversed(node.children))

    def words(self) -> tuple[str, ...]:
        """The words, from left to right."""
        return tuple(leaf.word for leaf in self.leaves() if leaf.word is not None)


Example = Text | LabeledText | ParallelText | Columns | ConlluSentence | Tree
"""Anything a reader yields."""


def get_text(example: Example) -> str:
    """The text of any example, its tokens joined by blanks where it has tokens; the source of parallel text."""
    if isinstance(example, (Text, LabeledText)):
        return example.text
    if isinstance(example, ParallelText):
        return example.source
    if isinstance(example, Columns):
        return " ".join(example.column(0))
    if isinstance(example, ConlluSentence):
        return " ".join(word.form for word in example.words)
    return " ".join(example.words())
