"""Predictions of a transducer, and their evaluation: targets with scores and alignments. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from catena.metrics.edits import SYMBOL_ERROR, WORD_ERROR
from catena.metrics.measure import Metric
from catena.tasks.base import EvaluationResult, RankedPrediction
from catena.tasks.transduce.data import Symbols


@dataclass(frozen=True)
class TransductionPrediction(RankedPrediction):
    """The best target of a source. Prints as the target.

    Args:
        source: the source text.
        target: the target; empty for a blank text.
        log_prob: log p(target | source); None if the model has no probabilities, or knows no symbol of the source.
        truncated: whether the target was cut at the maximum length, so that it has no end symbol.
        known: whether the model knows any symbol of the source; if not, the target is a guess.
        alignment: pieces of the source and the aligned pieces of the target, if requested.
        n_best: the n best predictions, if several were requested.
        scores: whether log-probabilities are shown in tables.
    """

    source: str
    target: str = ""
    log_prob: float | None = None
    truncated: bool = False
    known: bool = False
    alignment: tuple[tuple[str, str], ...] | None = None
    n_best: tuple[Self, ...] = ()
    scores: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return self.target

    def input_fields(self) -> dict[str, Any]:
        return {"source": self.source, "known": self.known}

    def output_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"target": self.target, "log_prob": self.log_prob, "truncated": self.truncated}
        return row if self.alignment is None else {**row, "alignment": [list(pair) for pair in self.alignment]}

    def row_fields(self) -> dict[str, Any]:
        row: dict[str, Any] = {"source": self.source, "target": self.target}
        if self.scores:
            row["log_prob"] = self.log_prob
        if self.alignment is not None:
            row["alignment"] = " ".join(f"{_cell(a)}|{_cell(b)}" for a, b in self.alignment)
        return row


def _cell(piece: str) -> str:
    """A piece without blanks; _ if it is empty."""
    return piece.replace(" ", "+") or "_"


# --- evaluation -------------------------------------------------------------------------------------------------------


METRICS: dict[str, Metric] = {"word_error": WORD_ERROR, "symbol_error": SYMBOL_ERROR}


@dataclass(frozen=True, eq=False)
class TransduceEvaluation(EvaluationResult):
    """Pairs of strings with the predicted target of each source.

    A source with several targets occurs in several pairs. It is one example, which is correct if its prediction is one
    of the targets.

    Args:
        sources: the source of each pair.
        targets: its target.
        predicted: the prediction for its source.
        unknown: the number of source symbols that the model does not know.
    """

    sources: list[Symbols]
    targets: list[Symbols]
    predicted: list[Symbols]
    unknown: np.ndarray
    counts: str = ""

    @cached_property
    def _grouped(self) -> tuple[list[list[Symbols]], list[Symbols], int]:
        """The targets and the prediction of each distinct source, and the total number of unknown symbols."""
        references: dict[Symbols, list[Symbols]] = {}
        predicted: dict[Symbols, Symbols] = {}
        unknown: dict[Symbols, int] = {}
        rows = zip(self.sources, self.targets, self.predicted, self.unknown.tolist(), strict=True)
        for source, target, prediction, n_unknown in rows:
            references.setdefault(source, []).append(target)
            predicted[source], unknown[source] = prediction, n_unknown
        return list(references.values()), list(predicted.values()), sum(unknown.values())

    def metrics(self) -> Mapping[str, Metric]:
        return METRICS

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        return self._grouped[0], self._grouped[1]

    def notes(self) -> list[str]:
        references, _, n_unknown = self._grouped
        n_targets = sum(len(set(targets)) for targets in references)
        return [f"{len(references):,} sources with {n_targets:,} targets; {n_unknown:,} unknown source symbols"]
