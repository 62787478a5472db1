"""Scores of word vectors: the accuracy of analogies, and Spearman's correlation with human ratings. Imports no torch.

Tested in tests/tasks/embed/test_evaluation.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from catena.errors import DataError
from catena.metrics.classification import ACCURACY
from catena.metrics.correlation import SPEARMAN
from catena.metrics.intervals import Interval, fisher_interval
from catena.metrics.measure import Metric
from catena.tasks.base import EvaluationResult

METRICS = {"accuracy": ACCURACY, "spearman": SPEARMAN}
_SPREAD = 1.06
"""The variance of Fisher's transform of Spearman's correlation, times n - 3."""


@dataclass(frozen=True)
class EmbedEvaluation(EvaluationResult):
    """Answers to analogies, or cosines of rated pairs. Questions with an unknown word are skipped and counted.

    Args:
        metric: ``accuracy`` for analogies, ``spearman`` for ratings.
        references: the expected word in lower case, or the rating, of each scored question.
        predictions: the answer in lower case, or the cosine.
        sections: the section of each scored question.
        skipped: the section of each skipped question.
    """

    metric: str
    references: list[Any]
    predictions: list[Any]
    sections: list[str]
    skipped: list[str]
    counts: str = field(default="", kw_only=True)

    def metrics(self) -> Mapping[str, Metric]:
        need = 2 if self.metric == "spearman" else 1
        if len(self.references) < need:
            n = len(self.references) + len(self.skipped)
            raise DataError(
                f"The number of questions whose words all have vectors must be at least {need}, got "
                f"{len(self.references)} of {n}. Use other vectors or questions."
            )
        return {self.metric: METRICS[self.metric]}

    def pairs(self, name: str) -> tuple[list[Any], list[Any]]:
        return self.references, self.predictions

    def interval(self, name: str) -> Interval | None:
        """The 95 % interval of a score.

        Spearman's correlation of a resample can be undefined, so its interval comes from Fisher's transform; None for
        fewer than 4 pairs.
        """
        if name != "spearman":
            return super().interval(name)
        return fisher_interval(self.scores()[name], len(self.references), spread=_SPREAD)

    def notes(self) -> list[str]:
        return [f"questions with an unknown word, which were skipped: {len(self.skipped):,}"] if self.skipped else []

    def details(self) -> list[str]:
        return [
            f"{name:<30} {one['correct']:>6} of {one['scored']}, {one['skipped']} skipped"
            for name, one in self._by_section().items()
        ]

    def details_dict(self) -> dict[str, Any]:
        return {"sections": self._by_section(), "skipped": len(self.skipped)}

    def _by_section(self) -> dict[str, dict[str, int]]:
        """The counts of each section; empty for rated pairs, which have none."""
        if self.metric != "accuracy":
            return {}
        rows = zip(self.sections, self.references, self.predictions, strict=True)
        correct = Counter(section for section, expected, answer in rows if expected == answer)
        scored, skipped = Counter(self.sections), Counter(self.skipped)
        return {
            name: {"correct": correct[name], "scored": scored[name], "skipped": skipped[name]}
            for name in dict.fromkeys([*self.sections, *self.skipped])
        }
