"""The evaluation report of a dependency parser."""

from __future__ import annotations

from collections import Counter

import numpy as np

from catena.metrics.attachment import MEASURES, DependencyArc, count_trees
from catena.metrics.intervals import bootstrap_score_interval
from catena.metrics.text import table_lines
from catena.randomness import Randomness
from catena.tasks.parse.dependency.config import METRICS

_RESAMPLES = 1000
_MOST_MISTAKES = 10


def report_lines(references: list[list[DependencyArc]], predictions: list[list[DependencyArc]], seed: int) -> list[str]:
    """The scores with their intervals, each relation, and the confusions."""
    rows = count_trees(references, predictions)
    words = sum(len(tree) for tree in references)
    lines = [
        f"{len(references):,} sentences, {words:,} words; intervals cover 95 % of {_RESAMPLES:,} resamples of sentences"
    ]
    for name in METRICS:
        measure = MEASURES[name]
        found = bootstrap_score_interval(rows, measure.score, Randomness(seed).numpy("report"), resamples=_RESAMPLES)
        lines.append(
            f"{name:<4} {100 * found.value:.2f} (95 % interval {100 * found.low:.2f} to {100 * found.high:.2f})   "
            f"{measure.name}|n={len(references)}"
        )
    return [
        *lines,
        _crossing_line(rows),
        "",
        *_relation_table(references, predictions),
        "",
        *_mistakes(references, predictions),
    ]


def _crossing_line(rows: np.ndarray) -> str:
    n, hits = int(rows[:, -2].sum()), int(rows[:, -1].sum())
    if not n:
        return "nonprojective_recall: no word is non-projective"
    return f"nonprojective_recall {100 * hits / n:.2f}: {hits:,} of {n:,} words on crossing arcs have the correct head"


def _relation_table(references: list[list[DependencyArc]], predictions: list[list[DependencyArc]]) -> list[str]:
    """Precision and recall of arc and relation together, for each relation with its subtype."""
    gold: Counter[str] = Counter(word.relation for tree in references for word in tree)
    own: Counter[str] = Counter(word.relation for tree in predictions for word in tree)
    hits: Counter[str] = Counter(
        a.relation
        for right, given in zip(references, predictions, strict=True)
        for a, b in zip(right, given, strict=True)
        if (a.head, a.relation) == (b.head, b.relation)
    )
    table = [["relation", "precision", "recall", "f1", "words"]]
    for name, n in sorted(gold.items(), key=lambda item: (-item[1], item[0])):
        p, r = hits[name] / own[name] if own[name] else 0.0, hits[name] / n
        f = 2 * hits[name] / (own[name] + n)
        table.append([name, f"{p:.3f}", f"{r:.3f}", f"{f:.3f}", f"{n:,}"])
    return table_lines(table)


def _mistakes(references: list[list[DependencyArc]], predictions: list[list[DependencyArc]]) -> list[str]:
    """The most frequent wrong relations on correct arcs."""
    wrong: Counter[tuple[str, str]] = Counter(
        (a.relation, b.relation)
        for right, given in zip(references, predictions, strict=True)
        for a, b in zip(right, given, strict=True)
        if a.head == b.head and a.relation != b.relation
    )
    if not wrong:
        return ["no relation is wrong if the head is correct"]
    ordered = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))[:_MOST_MISTAKES]
    listed = [f"  {n:>5}  {a} taken for {b}" for (a, b), n in ordered]
    return ["the most frequent wrong relations with a correct head:", *listed]
