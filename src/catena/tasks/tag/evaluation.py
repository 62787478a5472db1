"""Scores and a report from gold and predicted tags in the scheme of the files. Imports no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.metrics import spans as span_metrics
from catena.metrics.classification import label_report
from catena.metrics.confusion import confusion_table
from catena.metrics.measure import Metric, mean_score
from catena.tasks.base import EvaluationResult
from catena.tasks.data_warnings import unseen_line
from catena.tasks.tag.tag_set import TagSet

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
