"""Predictions of a tagger, and their output formats: columns, JSON, text with marked spans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from catena.data.examples import Columns, ConlluRow, ConlluSentence
from catena.data.readers.conllu import to_text
from catena.data.schemes import OUTSIDE
from catena.tasks.base import RankedPrediction
from catena.tasks.tag.data import TaggedSentence

_COLORS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
"""Terminal color codes; each kind of span or tag has one."""


@dataclass(frozen=True)
class TagSpan:
    """A span: words ``start`` to ``end - 1`` are a ``label``.

    ``start_char`` and ``end_char`` are offsets in the input if it was a text; ``probability`` is set if confidence is.
    """

    start: int
    end: int
    label: str
    text: str
    start_char: int | None = None
    end_char: int | None = None
    probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class TagPrediction(RankedPrediction):
    """The tags of a sentence and its spans. Prints as words with their tags.

    Args:
        words: the words of the sentence.
        tags: the tag of each word.
        spans: the spans that the tags encode; None if they do not encode spans.
        log_prob: log-probability of the tag sequence, if requested.
        confidence: the probability of each tag, if requested.
        n_best: the n best or sampled predictions, if several were requested.
        text: the input if it was a text.
        column: the column of CoNLL-U in which the tags are written.
        between: the text between two words.
        kinds: the labels of the model, for colors.
        example: the sentence with its columns, for writing it back.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[TagSpan, ...] | None = None
    log_prob: float | None = None
    confidence: tuple[float, ...] | None = None
    n_best: tuple[Self, ...] = ()
    text: str | None = field(default=None, repr=False)
    column: str = field(default="upos", repr=False)
    between: str = field(default=" ", repr=False)
    kinds: tuple[str, ...] = field(default=(), repr=False)
    example: TaggedSentence | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self._marked()

    def input_fields(self) -> dict[str, Any]:
        return {**({} if self.text is None else {"text": self.text}), "words": list(self.words)}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"tags": list(self.tags)}
        if self.spans is not None:
            row["spans"] = [span.to_dict() for span in self.spans]
        if self.confidence is not None:
            row["confidence"] = list(self.confidence)
        if self.log_prob is not None:
            row["log_prob"] = self.log_prob
        return row

    def to_rows(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.ranked:
            row: dict[str, Any] = {"tags": " ".join(one.tags)}
            if one.confidence is not None:
                row["confidence"] = " ".join(f"{p:.4f}" for p in one.confidence)
            if one.log_prob is not None:
                row["log_prob"] = one.log_prob
            rows.append({**row, "words": " ".join(self.words)})
        return rows

    def to_text(self, format: str) -> str:
        if format == "conll":
            return self._columns()
        if format == "color":
            return self._colored()
        return "\n".join(_with_log_prob(one._marked(), one.log_prob) for one in self.ranked)

    # --- text ---------------------------------------------------------------------------------------------------------

    def _pieces(self) -> list[tuple[str, str | None]]:
        """The parts of the text with their labels; None outside of spans."""
        if not self.spans and any(tag != OUTSIDE for tag in self.tags):
            return list(zip(self.words, self.tags, strict=True))
        pieces: list[tuple[str, str | None]] = []
        at = 0
        for span in self.spans or ():
            pieces += [(word, None) for word in self.words[at : span.start]]
            pieces.append((self.between.join(self.words[span.start : span.end]), span.label))
            at = span.end
        return [*pieces, *((word, None) for word in self.words[at:])]

    def _marked(self) -> str:
        """The text with its spans in brackets, or with the tag after each word if tags do not encode spans."""
        if not self.between:  # segmented text
            if not self.spans and any(tag != OUTSIDE for tag in self.tags):
                return "".join(self.words)
            return " ".join(span.text + (f"/{span.label}" if span.label else "") for span in self.spans or ())
        if not self.spans and any(tag != OUTSIDE for tag in self.tags):
            return self.between.join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))
        return self.between.join(text if label is None else f"[{text}]{label}" for text, label in self._pieces())

    def _colored(self) -> str:
        """The text for a terminal, with one color for each kind of span or tag."""
        color = {kind: _COLORS[i % len(_COLORS)] for i, kind in enumerate(self.kinds)}

        def painted(text: str, label: str | None) -> str:
            if label is None:
                return text
            return f"\x1b[{color.get(label, 37)}m{text}\x1b[2m/{label}\x1b[0m" if label else f"\x1b[4m{text}\x1b[0m"

        return self.between.join(painted(text, label) for text, label in self._pieces())

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self) -> str:
        """One block of columns for each tag sequence: the input columns and the tag. CoNLL-U stays CoNLL-U."""
        blocks = []
        for rank, one in enumerate(self.ranked, start=1):
            comments: tuple[str, ...] = (f"# n_best = {rank}",) if self.n_best and self.words else ()
            if one.log_prob is not None and self.words:
                comments += (f"# log_prob = {_number(one.log_prob)}",)
            blocks.append(self._block(one.tags, one.confidence, comments))
        return "\n".join(blocks)

    def _block(self, tags: Sequence[str], confidence: Sequence[float] | None, comments: tuple[str, ...]) -> str:
        source = self.example.example if self.example is not None else None
        if isinstance(source, ConlluSentence):
            return _conllu(source, tags, confidence, self.column, comments)
        rows = [list(row) for row in source.rows] if isinstance(source, Columns) else [[word] for word in self.words]
        for i, row in enumerate(rows):
            row.append(tags[i])
            if confidence is not None:
                row.append(f"{confidence[i]:.4f}")
        separator = source.separator if isinstance(source, Columns) else "\t"
        before = [*(source.comments if isinstance(source, Columns) else ()), *comments]
        return "".join(line + "\n" for line in (*before, *(separator.join(row) for row in rows)))


def _conllu(
    example: ConlluSentence,
    tags: Sequence[str],
    confidence: Sequence[float] | None,
    column: str,
    comments: tuple[str, ...],
) -> str:
    rows, at = [], 0
    index = ConlluRow._fields.index(column)
    for row in example.rows:
        if row.id.isdecimal():
            fields = list(row)
            fields[index] = tags[at]
            if confidence is not None:
                sure = f"Confidence={confidence[at]:.4f}"
                fields[-1] = sure if fields[-1] == "_" else f"{fields[-1]}|{sure}"
            row, at = ConlluRow(*fields), at + 1
        rows.append(row)
    return to_text(ConlluSentence(tuple(rows), (*example.comments, *comments), example.location)).removesuffix("\n")


def _with_log_prob(text: str, log_prob: float | None) -> str:
    return text if log_prob is None else f"{text}\t{_number(log_prob)}"


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{0.0 if math.isclose(value, 0, abs_tol=5e-7) else value:.6f}"
