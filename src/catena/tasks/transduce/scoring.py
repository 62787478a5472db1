"""Word and symbol error rates of transducers, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from catena.metrics.edits import SYMBOL_ERROR, WORD_ERROR
from catena.metrics.intervals import bootstrap_score_interval, wilson_interval
from catena.metrics.measure import Metric, signature
from catena.tasks.application import EvaluationReport
from catena.tasks.transduce.dataset import StringPair
from catena.transduction.base import StringTransducer, TransducedString

MEASURES: dict[str, Metric] = {"word_error": WORD_ERROR, "symbol_error": SYMBOL_ERROR}
BLOCK = 8192
"""Number of sources passed to a model together."""


def first_answers(model: StringTransducer, words: Sequence[StringPair]) -> list[tuple[str, ...]]:
    """The best target of each source; empty if there is none."""
    found: list[list[TransducedString]] = []
    for low in range(0, len(words), BLOCK):
        found += model.search_all([word.source for word in words[low : low + BLOCK]])
    return [listed[0].tokens if listed else () for listed in found]


def compute_scores(words: Sequence[StringPair], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The word and symbol error rates."""
    references = [word.targets for word in words]
    return {name: float(measure(references, answers)) for name, measure in MEASURES.items()}


def build_report(words: Sequence[StringPair], answers: Sequence[Sequence[str]], unknown: int) -> EvaluationReport:
    """The report of the error rates with confidence intervals."""
    references = [word.targets for word in words]
    scores = compute_scores(words, answers)
    signed = {name: signature(measure.name, len(words)) for name, measure in MEASURES.items()}
    wrong = round(scores["word_error"] * len(words))
    intervals = {"word_error": wilson_interval(wrong, len(words))}
    statistics = SYMBOL_ERROR.statistics(references, answers)
    if len(words) > 1:
        rng = np.random.default_rng(0)
        intervals["symbol_error"] = bootstrap_score_interval(statistics, SYMBOL_ERROR.score, rng)
    targets = sum(len(word.targets) for word in words)
    lines = [f"{len(words):,} sources with {targets:,} targets; {unknown:,} unknown source symbols"]
    for name, value in scores.items():
        between = f" ({intervals[name].low:.4f} to {intervals[name].high:.4f})" if name in intervals else ""
        lines.append(f"{name} {value:.4f}{between}   {signed[name]}")
    return EvaluationReport(scores, signed, tuple(lines))
