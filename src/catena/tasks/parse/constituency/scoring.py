"""Scores of predicted trees, and the report on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from catena.data.examples import Tree
from catena.metrics.brackets import CUTOFF, SCORES, bracket_measure, bracket_scores, label_table
from catena.metrics.intervals import bootstrap_score_interval
from catena.tasks.parse.constituency.trees import bracketing

_SAMPLES = 3


def compute_scores(right: Sequence[Tree], given: Sequence[Tree]) -> dict[str, float]:
    """All scores of EVALB, in [0, 1]."""
    found = bracket_scores([bracketing(t) for t in right], [bracketing(t) for t in given])
    return {name: float(found[name]) for name in SCORES}


def metric_signatures(n: int) -> dict[str, str]:
    """The signature of each score: how it was computed."""
    return {name: f"{bracket_measure(name).name}|n={n}" for name in SCORES}


def report_lines(right: Sequence[Tree], given: Sequence[Tree], notes: Sequence[str | None], seed: int) -> list[str]:
    """F1 with its interval, EVALB's second table, each label, and the number of unparsed sentences."""
    gold, own = [bracketing(t) for t in right], [bracketing(t) for t in given]
    measure = bracket_measure()
    interval = bootstrap_score_interval(measure.statistics(gold, own), measure.score, np.random.default_rng(seed))
    lines = [
        f"labeled brackets: F1 {100 * interval.value:.2f}, 95 % interval {100 * interval.low:.2f} to "
        f"{100 * interval.high:.2f} (bootstrap over {len(gold):,} sentences)"
    ]
    if any(len(one.words) > CUTOFF for one in gold) and any(len(one.words) <= CUTOFF for one in gold):
        short = bracket_scores(gold, own, longest=CUTOFF)
        lines.append(
            f"sentences of up to {CUTOFF} words: F1 {100 * short['f1']:.2f}, precision {100 * short['precision']:.2f}, "
            f"recall {100 * short['recall']:.2f}, complete {100 * short['complete']:.1f} %"
        )
    failed = [note for note in notes if note]
    if failed:
        lines.append(f"not parsed: {len(failed):,} of {len(gold):,}, which get a flat tree; the first: {failed[0]}")
    return [*lines, *label_table(gold, own)]


def sample_lines(right: Sequence[Tree], given: Sequence[Tree]) -> list[str]:
    """A few sentences, and the brackets in which gold and predicted tree differ."""
    lines = []
    for i in np.linspace(0, len(right) - 1, min(_SAMPLES, len(right))).astype(int):
        gold, own = bracketing(right[i]), bracketing(given[i])
        wrong = [*(Counter(own.spans) - Counter(gold.spans)), *(Counter(gold.spans) - Counter(own.spans))]
        shown = " ".join(gold.words)
        shown = shown if len(shown) <= 60 else shown[:57] + "…"
        mistakes = [
            f"{'no ' * (span in own.spans)}{span[0]} over '{' '.join(gold.words[span[1] : span[2]])[:30]}'"
            for span in wrong[:2]
        ]
        lines.append(f"{shown}  →  " + (f"✗ ({', '.join(mistakes)})" if wrong else "✓"))
    return lines
