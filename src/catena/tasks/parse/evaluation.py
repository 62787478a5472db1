"""Scores of trees and reports on them. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from catena.data.vocabulary import Labels
from catena.metrics.attachment import MEASURES, DependencyArc, nonprojective_words
from catena.metrics.brackets import CUTOFF, SCORES, Bracketing, bracket_measure, bracket_scores, label_table
from catena.metrics.confusion import confusion_table
from catena.metrics.measure import Metric
from catena.metrics.spans import SpanReport, span_report
from catena.tasks.base import EvaluationResult
from catena.tasks.data_warnings import unseen_line
from catena.tasks.parse.dependency import config as dependency

_SHOWN, _WIDTH = 3, 60
"""Number and width of the dev sentences that are shown at each evaluation."""
_CROSSING = "nonprojective_recall"
_MOST_MISTAKES = 10


@dataclass(frozen=True, eq=False)
class ParseEvaluation(EvaluationResult):
    """Gold and predicted trees of sentences, in the form of the metrics."""

    METRICS: ClassVar[Mapping[str, Metric]]
    """All scores; the first selects checkpoints."""

    words: list[tuple[str, ...]]
    gold: list[Any]
    predicted: list[Any]

    def metrics(self) -> Mapping[str, Metric]:
        return self.METRICS

    def pairs(self, name: str) -> tuple[list[Any], list[Any]]:
        return self.gold, self.predicted

    @abstractmethod
    def mistakes(self, i: int) -> list[str]:
        """The mistakes in the tree of sentence ``i``, in words."""

    def show(self) -> list[str]:
        """A few of the sentences with their mistakes."""
        lines, n = [], len(self.words)
        for i in np.linspace(0, n - 1, min(_SHOWN, n)).astype(int).tolist():
            text, wrong = " ".join(self.words[i]), self.mistakes(i)
            text = text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "…"
            listed = ", ".join([*wrong[:3], *["…"] * (len(wrong) > 3)])
            lines.append(f"{text}  →  " + (f"✗ {listed}" if wrong else "✓"))
        return lines


@dataclass(frozen=True, eq=False)
class DependencyEvaluation(ParseEvaluation):
    """Gold and predicted dependency trees, and the relations of the model."""

    METRICS: ClassVar[Mapping[str, Metric]] = {name: MEASURES[name] for name in (*dependency.METRICS, _CROSSING)}

    gold: list[list[DependencyArc]]
    predicted: list[list[DependencyArc]]
    relations: Labels
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return {name: metric for name, metric in self.METRICS.items() if self._has_crossing or name != _CROSSING}

    @cached_property
    def _has_crossing(self) -> bool:
        return any(nonprojective_words([arc.head for arc in tree]) for tree in self.gold)

    def notes(self) -> list[str]:
        unseen = count_unseen((arc.relation for tree in self.gold for arc in tree), self.relations)
        line = unseen_line(unseen, "this file", "words have a relation")
        return [line] if line else []

    def mistakes(self, i: int) -> list[str]:
        words, trees = self.words[i], zip(self.gold[i], self.predicted[i], strict=True)
        return [
            f"{words[j]} ← {words[own.head - 1] if own.head else 'root'} ({own.relation})"
            for j, (gold, own) in enumerate(trees)
            if (gold.head, gold.relation) != (own.head, own.relation)
        ]

    def details(self) -> list[str]:
        """The scores of each relation, and the most frequent wrong relations on correct arcs."""
        mistakes = [f"  {n:>5}  {a} taken for {b}" for a, b, n in self._confusions(_MOST_MISTAKES)]
        head = "the most frequent wrong relations with a correct head:"
        return [
            f"{len(self.gold):,} sentences, {sum(map(len, self.gold)):,} words",
            *self._report().lines(),
            "",
            *([head, *mistakes] if mistakes else ["no relation is wrong if the head is correct"]),
        ]

    def details_dict(self) -> dict[str, Any]:
        return {"classes": self._report().to_dict(), "confusion": [list(row) for row in self._confusions(100)]}

    def _report(self) -> SpanReport:
        """Precision and recall of arc and relation together, for each relation with its subtype."""
        sides = ([_labeled_arcs(tree) for tree in side] for side in (self.gold, self.predicted))
        return span_report(*sides)

    def _confusions(self, most: int) -> list[tuple[Any, Any, int]]:
        pairs = [
            (a.relation, b.relation)
            for trees in zip(self.gold, self.predicted, strict=True)
            for a, b in zip(*trees, strict=True)
            if a.head == b.head
        ]
        return confusion_table([a for a, _ in pairs], [b for _, b in pairs]).mistakes(most) if pairs else []


def _labeled_arcs(tree: list[DependencyArc]) -> frozenset[tuple[int, int, str]]:
    return frozenset((word, arc.head, arc.relation) for word, arc in enumerate(tree))


def count_unseen(relations: Iterable[str], known: Labels) -> Counter[str]:
    """Count the relations that are not in ``known``, both without subtypes, as in LAS."""
    names = {name.split(":", 1)[0] for name in known.names}
    return Counter(name for relation in relations if (name := relation.split(":", 1)[0]) not in names)


@dataclass(frozen=True, eq=False)
class ConstituencyEvaluation(ParseEvaluation):
    """Gold and predicted phrase-structure trees, and why some sentences have no parse."""

    METRICS: ClassVar[Mapping[str, Metric]] = {name: bracket_measure(name) for name in SCORES}

    gold: list[Bracketing]
    predicted: list[Bracketing]
    failures: list[str] = field(default_factory=list)
    counts: str = ""

    def notes(self) -> list[str]:
        n, total = len(self.failures), len(self.gold)
        return [f"not parsed: {n:,} of {total:,}, which get a flat tree; the first: {self.failures[0]}"] if n else []

    def mistakes(self, i: int) -> list[str]:
        gold, own = self.gold[i], self.predicted[i]
        wrong = [*(Counter(own.spans) - Counter(gold.spans)), *(Counter(gold.spans) - Counter(own.spans))]
        return [
            f"{'no ' * (span in own.spans)}{span[0]} over '{' '.join(gold.words[span[1] : span[2]])[:30]}'"
            for span in wrong
        ]

    def details(self) -> list[str]:
        """EVALB's second table, and the scores of each label."""
        lines = []
        is_short = [len(one.words) <= CUTOFF for one in self.gold]
        if any(is_short) and not all(is_short):
            short = bracket_scores(self.gold, self.predicted, longest=CUTOFF)
            shown = (f"{name} {short[name]:.4f}" for name in ("f1", "precision", "recall", "complete"))
            lines.append(f"sentences of up to {CUTOFF} words: {', '.join(shown)}")
        return [*lines, *label_table(self.gold, self.predicted)]
