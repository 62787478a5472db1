"""Examples that readers yield: frozen values with their source location.

Tested in tests/data/test_reading.py and tests/data/test_samples.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file, counted from 1 (for tables without lines, a row). Prints as ``train.tsv:17``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Text:
    """One line of plain text."""

    text: str
    location: SourceLocation
    ids: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """Columns that identify the record, which predictions keep."""


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text and its labels: a tuple of one for a single label, empty if the label is to be predicted.

    Args:
        text: the text.
        labels: its labels; one, unless the data are multilabel.
        location: the line of the file it was read from.
        weight: the factor of its loss in training.
    """

    text: str
    labels: tuple[str, ...]
    location: SourceLocation
    ids: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """Columns that identify the record, which predictions keep."""
    weight: float = field(default=1.0, kw_only=True)


@dataclass(frozen=True, slots=True)
class ParallelText:
    """A text and its counterpart, such as a sentence and its translation, or a word and its pronunciation.

    Args:
        source: the text that is read.
        target: the text that is predicted.
        location: the line of the file it was read from.
    """

    source: str
    target: str
    location: SourceLocation
    ids: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """Columns that identify the record, which predictions keep."""


@dataclass(frozen=True, slots=True)
class Columns:
    """One sentence of a column file.

    ``rows[i][j]`` is field ``j`` of token ``i``; all rows have the same length. ``location`` is the line of the first
    row, so token ``i`` is in line ``location.line + i``. ``comments`` are the preceding lines that are not tokens:
    ``-DOCSTART-`` lines and lines that begin with ``#``. ``separator`` is the field separator, for writing the sentence
    again.

    Args:
        rows: ``rows[i][j]`` is field ``j`` of token ``i``.
        location: the line of the first row.
        comments: the preceding lines that are not tokens.
        separator: the field separator.
        word: the column of the words: 1 if the first has the numbers of the words.
    """

    rows: tuple[tuple[str, ...], ...]
    location: SourceLocation
    comments: tuple[str, ...] = ()
    separator: str = field(default="\t", compare=False)
    word: int = field(default=0, compare=False)

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return self.column(self.word)

    def column(self, j: int) -> tuple[str, ...]:
        """Field ``j`` of every token. ``-1`` is the last field, usually the tag."""
        return tuple(row[j] for row in self.rows)


class ConlluRow(NamedTuple):
    """The ten fields of a CoNLL-U line, with ``_`` kept."""

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
    """One sentence of a CoNLL-U file: every row in file order, and the comment lines before them.

    ``location`` is the line of the first row.

    Args:
        rows: the lines of the sentence, including multiword tokens and empty nodes.
        comments: the lines before them that begin with ``#``.
        location: the line of the first row.
    """

    rows: tuple[ConlluRow, ...]
    comments: tuple[str, ...]
    location: SourceLocation

    @property
    def words(self) -> tuple[ConlluRow, ...]:
        """The syntactic words (ids 1, 2, 3 …), which a parser assigns heads to."""
        return tuple(row for row in self.rows if row.id.isdecimal())

    @property
    def multiwords(self) -> tuple[ConlluRow, ...]:
        """The multiword tokens, such as ``3-4``: surface tokens that span several words."""
        return tuple(row for row in self.rows if "-" in row.id)

    @property
    def empty_nodes(self) -> tuple[ConlluRow, ...]:
        """The empty nodes of the enhanced graph, such as ``5.1``."""
        return tuple(row for row in self.rows if "." in row.id)

    def comment(self, key: str) -> str | None:
        """The value of a ``# key = value`` comment, such as ``text`` or ``sent_id``, or None."""
        for line in self.comments:
            name, equals, value = line[1:].partition("=")
            if equals and name.strip() == key:
                return value.strip()
        return None


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of a phrase-structure tree: either a word and its tag, or a label and children.

    The outer bracket of the Penn Treebank, ``( (S …))``, is a node with the label "". Words are as in the
    file, where ``-LRB-`` is a bracket.

    Args:
        label: the label of a phrase, or the tag of a word.
        children: the nodes below, from left to right; empty for a word.
        word: the word of a leaf; None for a phrase.
        location: the line of the file it was read from.
    """

    label: str
    children: tuple[Tree, ...]
    word: str | None
    location: SourceLocation

    def leaves(self) -> Iterator[Tree]:
        """The nodes with a word, from left to right. Not recursive, because trees may exceed Python's stack."""
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
"""Any example of a reader."""


def get_text(example: Example) -> str:
    """The text of any example: tokens joined by blanks, or the source of parallel text."""
    if isinstance(example, (Text, LabeledText)):
        return example.text
    if isinstance(example, ParallelText):
        return example.source
    if isinstance(example, Columns):
        return " ".join(example.words)
    if isinstance(example, ConlluSentence):
        return " ".join(word.form for word in example.words)
    return " ".join(example.words())
