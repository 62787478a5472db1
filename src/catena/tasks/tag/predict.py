"""Predictions of a tagger, their output formats, and their evaluation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from catena.data.examples import Columns, ConlluRow, ConlluSentence
from catena.data.readers.conllu import to_text
from catena.data.schemes import OUTSIDE
from catena.metrics import spans as span_metrics
from catena.metrics.classification import label_report
from catena.metrics.confusion import confusion_table
from catena.metrics.measure import Metric, mean_score
from catena.tasks.base import EvaluationResult, RankedPrediction
from catena.tasks.sources import unseen_line
from catena.tasks.tag.data import TaggedSentence
from catena.tasks.tag.tag_set import TagSet

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

    def row_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"tags": " ".join(self.tags)}
        if self.confidence is not None:
            row["confidence"] = " ".join(f"{p:.4f}" for p in self.confidence)
        if self.log_prob is not None:
            row["log_prob"] = self.log_prob
        return {**row, "words": " ".join(self.words)}

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


# --- evaluation -------------------------------------------------------------------------------------------------------


_TagLists = Sequence[Sequence[str]]
_SPAN_MARKS = frozenset("BIOLUESM")
"""Prefixes of span tags in any scheme, which are the whole tag if spans have no kind."""
_MOST_LABELS = 40
"""Maximum number of tags with their own row in a report."""


def _accuracy_statistics(references: _TagLists, predictions: _TagLists) -> np.ndarray:
    """Number of correct words and of all words in each sentence."""
    pairs = zip(references, predictions, strict=True)
    return np.array([(sum(a == b for a, b in zip(*pair, strict=True)), len(pair[0])) for pair in pairs], np.float64)


def _sentence_statistics(references: _TagLists, predictions: _TagLists) -> np.ndarray:
    pairs = zip(references, predictions, strict=True)
    return np.array([(float(list(a) == list(b)), 1.0) for a, b in pairs], np.float64)


_ACCURACY = Metric("token-accuracy", _accuracy_statistics, mean_score)
_SENTENCE_ACCURACY = Metric("sentence-accuracy", _sentence_statistics, mean_score)


def _of_spans(metric: Metric) -> Metric:
    def statistics(references: _TagLists, predictions: _TagLists) -> np.ndarray:
        found = span_metrics.spans_of_tags(references), span_metrics.spans_of_tags(predictions)
        return metric.statistics(*found)

    return Metric(metric.name + "|spans:conlleval", statistics, metric.score)


_SPAN_METRICS = {
    "f1": _of_spans(span_metrics.F1),
    "precision": _of_spans(span_metrics.PRECISION),
    "recall": _of_spans(span_metrics.RECALL),
}
_METRICS = {**_SPAN_METRICS, "accuracy": _ACCURACY, "sentence_accuracy": _SENTENCE_ACCURACY}


def tag_metrics(tags: TagSet) -> Mapping[str, Metric]:
    """The scores of tags. The first is the main one: F1 if tags encode spans, otherwise the accuracy over words."""
    return _METRICS if tags.files is not None else {k: v for k, v in _METRICS.items() if k not in _SPAN_METRICS}


@dataclass(frozen=True, eq=False)
class TagEvaluation(EvaluationResult):
    """Gold and predicted tags of sentences, in the scheme of the files."""

    tags: TagSet
    gold: list[tuple[str, ...]]
    predicted: list[list[str]]
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        known = tag_metrics(self.tags)
        if self._all_known()[0] or self.tags.files is None:
            return known
        return {name: metric for name, metric in known.items() if name not in _SPAN_METRICS}

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        return self._all_known() if name in _SPAN_METRICS else self._known_words()

    def _all_known(self) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
        """The sentences whose gold tags are all known, which spans need."""
        pairs = [(a, b) for a, b in zip(self.gold, self.predicted, strict=True) if self.tags.unknown not in a]
        return [a for a, _ in pairs], [b for _, b in pairs]

    def _known_words(self) -> tuple[list[list[str]], list[list[str]]]:
        """Gold and predicted tags without the words whose gold tag is not known."""
        both = zip(self.gold, self.predicted, strict=True)
        kept = [[(a, b) for a, b in zip(*pair, strict=True) if a != self.tags.unknown] for pair in both]
        return [[a for a, _ in some] for some in kept if some], [[b for _, b in some] for some in kept if some]

    def notes(self) -> list[str]:
        tags = self.tags
        if tags.lemmas:
            return []
        if tags.files is None:
            known = {tag for name in tags.names.names for tag in tags.shown(["x"], [name])}
            new = Counter(tag for row in self.gold for tag in row if tag not in known)
        else:
            kinds = {name.partition("-")[2] for name in tags.names.names}
            new = Counter(tag for row in self.gold for tag in row if not _is_of(kinds, tag))
        line = unseen_line({tag: n for tag, n in new.items() if tag != tags.unknown}, "this file", "words have a tag")
        return [line] if line else []

    def details(self) -> list[str]:
        if self.tags.lemmas:
            return []
        return self._tag_lines() if self.tags.files is None else self._span_lines()

    def details_dict(self) -> dict[str, Any]:
        if self.tags.lemmas:
            return {}
        if self.tags.files is not None:
            return {"classes": span_metrics.span_report(*map(span_metrics.spans_of_tags, self._all_known())).to_dict()}
        gold, predicted = self._flat()
        confusion = [[a, b, n] for a, b, n in confusion_table(gold, predicted).mistakes(100)]
        return {"classes": label_report(gold, predicted).to_dict(), "confusion": confusion}

    def _span_lines(self) -> list[str]:
        gold, predicted = self._all_known()
        if not gold:
            return ["no sentence has tags that are all known, so spans cannot be scored"]
        assert self.tags.files is not None
        scheme = self.tags.files.scheme
        valid = (span_metrics.spans_of_tags(side, "strict", scheme) for side in (gold, predicted))
        strict = float(span_metrics.F1(*valid))
        lines = []
        if strict != self.scores()["f1"]:
            lines.append(f"f1 {strict:.4f} if tags that break {scheme} count as no spans   span-f1|spans:strict")
        spans = [span_metrics.spans_of_tags(side) for side in (gold, predicted)]
        return [*lines, *span_metrics.span_report(*spans).lines()]

    def _tag_lines(self) -> list[str]:
        gold, predicted = self._flat()
        often = [tag for tag, _ in Counter(gold).most_common(_MOST_LABELS)]
        mistakes = [f"  {n:>5}  {a} taken for {b}" for a, b, n in confusion_table(gold, predicted).mistakes(10)]
        table = label_report(gold, predicted, labels=sorted(often)).lines()
        return [*table, "", *(["the most frequent mistakes:", *mistakes] if mistakes else ["no mistakes"])]

    def _flat(self) -> tuple[list[str], list[str]]:
        gold, predicted = self._known_words()
        return [tag for row in gold for tag in row], [tag for row in predicted for tag in row]


def _is_of(kinds: set[str], tag: str) -> bool:
    """Whether a tag marks no span or a span of one of these kinds."""
    mark, dash, kind = tag.partition("-")
    return kind in kinds if dash else mark in _SPAN_MARKS
