"""Predictions of a tagger, and their output formats: columns, JSON, text with marked spans."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catena.data.examples import Columns, ConlluRow, ConlluSentence
from catena.data.readers.conllu import to_text
from catena.data.schemes import OUTSIDE
from catena.tasks.application import DEFAULT_PREDICT_OPTIONS, PredictOptions
from catena.tasks.tag.dataset import TaggedSentence
from catena.tasks.written import score_value

_COLORS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
"""Terminal color codes; each kind of span or tag has one."""


@dataclass(frozen=True)
class FoundSpan:
    """A span: words ``begin`` to ``end - 1`` are a ``kind``, with its probability if confidence is set."""

    begin: int
    end: int
    kind: str
    text: str
    probability: float | None = None


@dataclass(frozen=True)
class TagAnswer:
    """A tag sequence and its spans.

    ``log_prob`` is the log-probability of the sequence in nats; ``probabilities`` are the marginals of its tags if
    confidence is set.
    """

    tags: tuple[str, ...]
    spans: tuple[FoundSpan, ...] = ()
    log_prob: float | None = None
    probabilities: tuple[float, ...] | None = None


@dataclass(frozen=True)
class TagPrediction:
    """The best tags of a sentence; with ``probabilities`` of the tags and n best or sampled ``answers`` if set.

    Prints as words with their tags.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    spans: tuple[FoundSpan, ...] = ()
    log_prob: float | None = None
    probabilities: tuple[float, ...] | None = None
    answers: tuple[TagAnswer, ...] = ()
    options: PredictOptions = DEFAULT_PREDICT_OPTIONS

    def __str__(self) -> str:
        return to_marked_text(self.words, self.tags, self.spans)


def to_marked_text(words: Sequence[str], tags: Sequence[str], spans: Sequence[FoundSpan], between: str = " ") -> str:
    """Text with its spans in brackets, or with the tag after each word if tags do not encode spans."""
    if not spans and any(tag != OUTSIDE for tag in tags):
        return between.join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += words[at : span.begin]
        inside = between.join(words[span.begin : span.end])
        parts.append(f"[{inside}]{span.kind}")
        at = span.end
    return between.join([*parts, *words[at:]])


def append_log_prob(text: str, answer: TagAnswer) -> str:
    """Text followed by its log-probability, if there is one."""
    return text if answer.log_prob is None else f"{text}\t{_number(answer.log_prob)}"


def to_color_text(prediction: TagPrediction, kinds: Sequence[str], between: str = " ") -> str:
    """The text for a terminal, with one color for each kind of span or tag."""
    color = {kind: _COLORS[i % len(_COLORS)] for i, kind in enumerate(kinds)}

    def painted(text: str, kind: str) -> str:
        return f"\x1b[{color.get(kind, 37)}m{text}\x1b[2m/{kind}\x1b[0m" if kind else f"\x1b[4m{text}\x1b[0m"

    if not prediction.spans and any(tag != OUTSIDE for tag in prediction.tags):
        pairs = zip(prediction.words, prediction.tags, strict=True)
        return between.join(painted(word, tag) for word, tag in pairs)
    parts: list[str] = []
    at = 0
    for span in prediction.spans:
        parts += prediction.words[at : span.begin]
        parts.append(painted(between.join(prediction.words[span.begin : span.end]), span.kind))
        at = span.end
    return between.join([*parts, *prediction.words[at:]])


# --- columns ----------------------------------------------------------------------------------------------------------


def as_columns(prediction: TagPrediction, item: Any, column: str) -> str:
    """One block of columns for each tag sequence, without the blank line: the input columns and the tag.

    CoNLL-U stays CoNLL-U, with the tags in their ``column``.
    """
    example = item.example if isinstance(item, TaggedSentence) else None
    if not prediction.answers or not prediction.words:
        asked = prediction.options.scores and prediction.words
        comments = (f"# log_prob = {_number(prediction.log_prob)}",) if asked else ()
        return _block(prediction.words, prediction.tags, prediction.probabilities, example, column, comments)
    blocks = []
    for rank, answer in enumerate(prediction.answers, start=1):
        told = (f"# answer = {rank}", f"# log_prob = {_number(answer.log_prob)}")
        blocks.append(_block(prediction.words, answer.tags, answer.probabilities, example, column, told))
    return "\n".join(blocks)


def _block(
    words: Sequence[str],
    tags: Sequence[str],
    probabilities: Sequence[float] | None,
    example: Any,
    column: str,
    comments: tuple[str, ...],
) -> str:
    if isinstance(example, ConlluSentence):
        return _conllu(example, tags, probabilities, column, comments)
    rows: list[list[str]] = (
        [list(row) for row in example.rows] if isinstance(example, Columns) else [[w] for w in words]
    )
    separator = example.separator if isinstance(example, Columns) else "\t"
    for i, row in enumerate(rows):
        row.append(tags[i])
        if probabilities is not None:
            row.append(f"{probabilities[i]:.4f}")
    before = [*(example.comments if isinstance(example, Columns) else ()), *comments]
    return "".join(line + "\n" for line in (*before, *(separator.join(row) for row in rows)))


def _conllu(
    example: ConlluSentence,
    tags: Sequence[str],
    probabilities: Sequence[float] | None,
    column: str,
    comments: tuple[str, ...],
) -> str:
    rows, at = [], 0
    place = ConlluRow._fields.index(column)
    for row in example.rows:
        if row.id.isdecimal():
            fields = list(row)
            fields[place] = tags[at]
            if probabilities is not None:
                sure = f"Confidence={probabilities[at]:.4f}"
                fields[-1] = sure if fields[-1] == "_" else f"{fields[-1]}|{sure}"
            row, at = ConlluRow(*fields), at + 1
        rows.append(row)
    return to_text(ConlluSentence(tuple(rows), (*example.comments, *comments), example.place)).removesuffix("\n")


# --- JSON -------------------------------------------------------------------------------------------------------------


def as_json(prediction: TagPrediction, spans: bool) -> str:
    """One line of JSON; with a list of spans, possibly empty, if the model's tags encode ``spans``."""
    row: dict[str, Any] = {"words": list(prediction.words), "tags": list(prediction.tags)}
    if spans:
        row["spans"] = [_span(span) for span in prediction.spans]
    if prediction.probabilities is not None:
        row["probabilities"] = [round(p, 6) for p in prediction.probabilities]
    if prediction.log_prob is not None or prediction.options.scores:
        row["log_prob"] = score_value(prediction.log_prob)
    if prediction.answers:
        row["answers"] = [_answer(answer) for answer in prediction.answers]
    return json.dumps(row, ensure_ascii=False)


def _answer(answer: TagAnswer) -> dict[str, Any]:
    row: dict[str, Any] = {
        "tags": list(answer.tags),
        "log_prob": score_value(answer.log_prob),
    }
    if answer.probabilities is not None:
        row["probabilities"] = [round(p, 6) for p in answer.probabilities]
    return row


def _span(span: FoundSpan) -> dict[str, Any]:
    row: dict[str, Any] = {"text": span.text, "kind": span.kind, "begin": span.begin, "end": span.end}
    if span.probability is not None:
        row["probability"] = round(span.probability, 6)
    return row


def as_line(prediction: TagPrediction) -> str:
    """Tags, log-probability if set, and words, separated by tabs; one line for each tag sequence."""
    own = TagAnswer(prediction.tags, prediction.spans, prediction.log_prob, prediction.probabilities)
    lines = []
    for answer in prediction.answers or (own,):
        fields = [" ".join(answer.tags)]
        if answer.probabilities is not None:
            fields.append(" ".join(f"{p:.4f}" for p in answer.probabilities))
        if answer.log_prob is not None or prediction.answers or prediction.options.scores:
            fields.append(_number(answer.log_prob))
        lines.append("\t".join([*fields, " ".join(prediction.words)]))
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{0.0 if math.isclose(value, 0, abs_tol=5e-7) else value:.6f}"
