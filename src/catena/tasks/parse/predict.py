"""Predictions of parsers, and their output formats: CoNLL-U or brackets, JSON, drawings. Imports no torch."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from catena.data.examples import ConlluRow, ConlluSentence, Tree
from catena.data.readers import brackets, conllu
from catena.data.vocabulary import Labels
from catena.draw.terminal.arcs import arcs_text
from catena.draw.terminal.tree import tree_text
from catena.metrics.attachment import MEASURES, DependencyArc, nonprojective_words
from catena.metrics.brackets import CUTOFF, SCORES, Bracketing, bracket_measure, bracket_scores, label_table
from catena.metrics.confusion import confusion_table
from catena.metrics.measure import Metric
from catena.metrics.spans import SpanReport, span_report
from catena.tasks.base import EvaluationResult, RankedPrediction, first_ranked
from catena.tasks.options import RankedOptions
from catena.tasks.parse.constituency.trees import Confidence, flat, relabel_tree
from catena.tasks.parse.data import TreeExample
from catena.tasks.parse.dependency import config as dependency
from catena.tasks.sources import unseen_line


@dataclass(frozen=True, kw_only=True)
class ParsePrediction(RankedPrediction):
    """The best tree of a sentence, or several trees.

    Args:
        words: the words of the sentence.
        log_prob: log-probability of the tree, if requested; NaN if the sentence has no parse.
        n_best: the n best or sampled predictions, if several were requested.
        text: the input if it was a text.
    """

    words: tuple[str, ...]
    log_prob: float | None = None
    n_best: tuple[Self, ...] = ()
    text: str | None = field(default=None, repr=False)

    @abstractmethod
    def tree_fields(self) -> dict[str, Any]:
        """The tree as JSON values."""

    @abstractmethod
    def tree_blocks(self) -> Iterator[str]:
        """Each tree in the format of the files."""

    @abstractmethod
    def draw_tree(self, one: Self) -> str:
        """One of the trees as a drawing for a terminal."""

    @property
    def probability(self) -> float | None:
        """The probability of the tree; None if it is not known."""
        return None if self.log_prob is None or math.isnan(self.log_prob) else math.exp(self.log_prob)

    def input_fields(self) -> dict[str, Any]:
        return {**({} if self.text is None else {"text": self.text}), "words": list(self.words)}

    def output_fields(self) -> dict[str, Any]:
        scores = {"probability": self.probability, "log_prob": self.log_prob}
        return {**self.tree_fields(), **({} if self.log_prob is None else scores)}

    def row_fields(self) -> dict[str, Any]:
        fields = self.output_fields().items()
        row = {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in fields}
        return {**row, "words": " ".join(self.words)}

    def to_text(self, format: str) -> str:
        """The trees in the format of the files, or as drawings; "" for a sentence without words."""
        if not self.words:
            return ""
        return "\n".join(self._drawings()) + "\n" if format == "tree" else "\n".join(self.tree_blocks())

    def _drawings(self) -> Iterator[str]:
        for rank, one in enumerate(self.ranked, start=1):
            score = _score_cell(one.log_prob)
            if self.n_best or score:
                yield f"tree {rank}" + (f"   log_prob {score}" if score else "")
            yield self.draw_tree(one).rstrip("\n")


P = TypeVar("P", bound=ParsePrediction)


def _score_cell(log_prob: float | None) -> str:
    return "" if log_prob is None or math.isnan(log_prob) else f"{log_prob:.4f}"


# --- dependency trees -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DependencyPrediction(ParsePrediction):
    """The dependency tree of a sentence. Prints as words with their heads and relations.

    Args:
        heads: for each word, the number of its head, counted from 1; 0 for the root.
        relations: for each word, its relation to its head.
        confidence: the probability of each word's arc and relation, if requested.
        sentence: the sentence, whose other columns are written back.
    """

    heads: tuple[int, ...]
    relations: tuple[str, ...]
    confidence: tuple[float, ...] | None = None
    sentence: ConlluSentence = field(repr=False, compare=False)

    def __str__(self) -> str:
        rows = zip(self.words, self.heads, self.relations, strict=True)
        return " ".join(f"{word}/{head}/{relation}" for word, head, relation in rows)

    def tree_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"heads": list(self.heads), "relations": list(self.relations)}
        return row if self.confidence is None else {**row, "confidence": list(self.confidence)}

    def tree_blocks(self) -> Iterator[str]:
        for rank, one in enumerate(self.ranked, start=1):
            comments = [*self.sentence.comments, *([f"# n_best = {rank}"] if self.n_best else [])]
            if one.log_prob is not None:
                comments += [f"# probability = {one.probability:.6g}", f"# log_prob = {one.log_prob:.6f}"]
            tree = set_tree(self.sentence, one.heads, one.relations, one.confidence)
            yield conllu.to_text(replace(tree, comments=tuple(comments))).removesuffix("\n")

    def draw_tree(self, one: DependencyPrediction) -> str:
        labels = one.relations
        if one.confidence is not None:
            labels = tuple(f"{name} {p:.2f}" for name, p in zip(labels, one.confidence, strict=True))
        return arcs_text(self.words, one.heads, labels)


def set_tree(
    sentence: ConlluSentence,
    heads: Sequence[int],
    relations: Sequence[str],
    confidence: Sequence[float] | None = None,
) -> ConlluSentence:
    """A sentence with another tree; confidences are written to MISC."""
    rows: list[ConlluRow] = []
    word = 0
    for row in sentence.rows:
        if not row.id.isdecimal():
            rows.append(row)
            continue
        misc = row.misc
        if confidence is not None:
            kept = [] if misc == "_" else [part for part in misc.split("|") if not part.startswith("Confidence=")]
            misc = "|".join([*kept, f"Confidence={confidence[word]:.4f}"])
        rows.append(row._replace(head=str(heads[word]), deprel=relations[word], misc=misc))
        word += 1
    return replace(sentence, rows=tuple(rows))


# --- phrase-structure trees -------------------------------------------------------------------------------------------


class ParsedTree(NamedTuple):
    """A tree, its log-probability among all trees of the sentence and, if known, its logical form."""

    tree: Tree
    log_prob: float | None = None
    meaning: str | None = None


@dataclass(frozen=True, kw_only=True)
class ConstituencyPrediction(ParsePrediction):
    """The phrase-structure tree of a sentence. Prints as brackets.

    Args:
        tree: the tree.
        meaning: the logical form of the sentence, if a grammar has meanings.
        brackets: the probability of every bracket of all trees, if confidence is set.
        tags: the probability of every tag of each word, if confidence is set.
        n_parses: the number of parses, if a grammar counts them.
        note: why the tree is not a parse, if it is not.
    """

    tree: Tree
    meaning: str | None = None
    brackets: Confidence | None = field(default=None, repr=False)
    tags: tuple[dict[str, float], ...] | None = field(default=None, repr=False)
    n_parses: int | None = None
    note: str | None = None

    @classmethod
    def from_trees(
        cls, example: TreeExample, trees: Sequence[ParsedTree], options: RankedOptions
    ) -> ConstituencyPrediction:
        """The prediction with the first of some trees, and with all of them if several were requested."""
        made = [cls(words=example.words, text=example.text, **tree._asdict()) for tree in trees]
        return first_ranked(made, options.several)

    @classmethod
    def without_parse(
        cls, example: TreeExample, tags: Sequence[str], options: RankedOptions, note: str
    ) -> ConstituencyPrediction:
        """A flat tree for a sentence that has no parse."""
        tree = ParsedTree(flat(example.words, tags), options.missing_score)
        return replace(cls.from_trees(example, [tree], options), note=note)

    def __str__(self) -> str:
        return brackets.to_text(self.tree)

    def tree_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"tree": str(self) if self.tree.children else None}
        return row if self.meaning is None else {**row, "meaning": self.meaning}

    def to_dict(self) -> dict[str, Any]:
        row = super().to_dict()
        if self.brackets is not None and self.tags is not None:
            ordered = sorted(self.brackets.items(), key=lambda item: (item[0][1], -item[0][2], -item[1]))
            row["brackets"] = [
                {"label": label, "start": start, "end": end, "probability": p} for (label, start, end), p in ordered
            ]
            leaves = zip(self.tags, self.tree.leaves(), strict=True)
            row["confidence"] = [tags.get(leaf.label, 0.0) for tags, leaf in leaves]
        further = {"n_parses": self.n_parses, "note": self.note}
        return row | {name: value for name, value in further.items() if value is not None}

    def tree_blocks(self) -> Iterator[str]:
        """Lines of brackets, after a column of log-probabilities if they were requested."""
        for one in self.ranked:
            prefix = "" if one.log_prob is None else f"{_score_cell(one.log_prob)}\t"
            yield prefix + brackets.to_text(self.labeled_tree(one.tree, ":"))

    def draw_tree(self, one: ConstituencyPrediction) -> str:
        meaning = "" if one.meaning is None else f"meaning: {one.meaning}"
        return tree_text(self.labeled_tree(one.tree, " ")) + meaning

    def _drawings(self) -> Iterator[str]:
        yield from super()._drawings()
        if self.n_parses is not None:
            yield f"parses: {self.n_parses:,}"
        if self.note:
            yield f"note: {self.note}"

    def labeled_tree(self, tree: Tree, between: str) -> Tree:
        """A tree with the probability of each bracket in its label, if it is known."""
        if self.brackets is None or self.tags is None:
            return tree
        probabilities, tags = self.brackets, self.tags

        def label(start: int, end: int, node: Tree) -> str:
            if node.word is not None:
                return f"{node.label}{between}{tags[start].get(node.label, 0.0):.2f}"
            return f"{node.label}{between}{probabilities.get((node.label, start, end), 0.0):.2f}"

        return relabel_tree(tree, label)


# --- evaluation -------------------------------------------------------------------------------------------------------


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
