"""Evaluation of transducers: word and symbol error rates. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from catena.metrics.edits import SYMBOL_ERROR, WORD_ERROR
from catena.metrics.measure import Metric
from catena.tasks.base import EvaluationResult
from catena.tasks.transduce.data import Symbols

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
