"""Predictions of a phrase-structure parser, and their output formats."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from catena.data.examples import Tree
from catena.data.readers.brackets import to_text
from catena.draw.terminal.tree import tree_text
from catena.tasks.application import PredictOptions
from catena.tasks.parse.constituency.trees import flat, relabel_tree
from catena.tasks.written import score_cell, score_value

Confidence = dict[tuple[str, int, int], float]
"""The probability of each bracket ``(label, first, end)``; tags are brackets over one word."""


@dataclass(frozen=True)
class ParsedTree:
    """A tree, its log-probability among all trees of the sentence and, if known, its logical form."""

    tree: Tree
    log_probability: float | None = None
    meaning: str | None = None

    @property
    def probability(self) -> float | None:
        return None if self.log_probability is None else math.exp(self.log_probability)


@dataclass(frozen=True)
class Parsed:
    """The predicted trees of one sentence. Prints as its first tree.

    Args:
        words: the sentence.
        answers: the n best trees, best first, or samples.
        brackets: the probability of every bracket of the answers, if confidence is set.
        tags: the probability of the tag of each word in the first answer, if confidence is set.
        parses: the number of parses, if a grammar counts them.
        note: why the tree is not a parse, if it is not.
        scored: whether log-probabilities are written.
    """

    words: tuple[str, ...]
    answers: tuple[ParsedTree, ...]
    brackets: Confidence | None = None
    tags: tuple[dict[str, float], ...] | None = None
    parses: int | None = None
    note: str | None = None
    scored: bool = False

    @property
    def tree(self) -> Tree:
        """The first tree."""
        return self.answers[0].tree

    def confidence(self, label: str, first: int, end: int) -> float:
        """The probability that these words are a bracket with this label."""
        return (self.brackets or {}).get((label, first, end), 0.0)

    def __str__(self) -> str:
        return to_text(self.tree)


def nothing(options: PredictOptions) -> Parsed:
    """The prediction for a sentence without words."""
    return Parsed((), (ParsedTree(flat((), ())),), note="the sentence has no words", scored=has_scores(options))


def has_scores(options: PredictOptions) -> bool:
    """Whether predictions with these options have log-probabilities."""
    return options.scores or options.n_best > 1 or options.samples > 0


FORMATS = ("brackets", "tree", "jsonl")


def written(parsed: Parsed, format: str) -> str:
    """A prediction as lines of brackets, as drawings for a terminal, or as one line of JSON."""
    if format == "jsonl":
        return json.dumps(_row(parsed), ensure_ascii=False)
    if not parsed.words:
        return ""  # a line without words stays empty
    if format == "brackets":
        return "\n".join(
            _prefix(parsed, answer, "\t") + to_text(label_with_probabilities(parsed, answer.tree, ":"))
            for answer in parsed.answers
        )
    parts = []
    for answer in parsed.answers:
        parts.append(
            _prefix(parsed, answer, "\n") + tree_text(label_with_probabilities(parsed, answer.tree, " ")).rstrip("\n")
        )
        parts += [f"meaning: {answer.meaning}"] if answer.meaning is not None else []
    parts += [f"parses: {parsed.parses:,}"] if parsed.parses is not None else []
    parts += [f"note: {parsed.note}"] if parsed.note else []
    return "\n".join(parts) + "\n"


def label_with_probabilities(parsed: Parsed, tree: Tree, between: str) -> Tree:
    """The tree with the probability of each bracket in its label, if it is known."""
    if parsed.brackets is None or parsed.tags is None:
        return tree
    tags = parsed.tags

    def label(first: int, end: int, node: Tree) -> str:
        p = tags[first].get(node.label, 0.0) if node.word is not None else parsed.confidence(node.label, first, end)
        return f"{node.label}{between}{p:.2f}"

    return relabel_tree(tree, label)


def _prefix(parsed: Parsed, answer: ParsedTree, behind: str) -> str:
    score = score_cell(answer.log_probability)
    return f"{score}{behind}" if parsed.scored and (score or behind == "\t") else ""


def _row(parsed: Parsed) -> dict[str, Any]:
    best = parsed.answers[0]
    row: dict[str, Any] = {"words": list(parsed.words), **_answer(best, parsed.scored)}
    if len(parsed.answers) > 1:
        row["trees"] = [_answer(answer, parsed.scored) for answer in parsed.answers]
    if parsed.brackets is not None and parsed.tags is not None:
        found = sorted(parsed.brackets.items(), key=lambda item: (item[0][1], -item[0][2], -item[1]))
        row["brackets"] = [
            {"label": label, "first": first + 1, "last": end, "probability": round(p, 6)}
            for (label, first, end), p in found
        ]
        row["tags"] = [
            round(p.get(leaf.label, 0.0), 6) for p, leaf in zip(parsed.tags, best.tree.leaves(), strict=True)
        ]
    if parsed.parses is not None:
        row["parses"] = parsed.parses
    if parsed.note is not None:
        row["note"] = parsed.note
    return row


def _answer(answer: ParsedTree, scored: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"tree": to_text(answer.tree) if answer.tree.children else None}
    score = score_value(answer.log_probability)
    if score is not None or scored:
        row["log_probability"] = score
    if answer.meaning is not None:
        row["meaning"] = answer.meaning
    return row
