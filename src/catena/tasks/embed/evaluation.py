r"""Scores of word vectors: the accuracy of analogies, and Spearman's correlation with human ratings. Imports no torch.

Spearman's correlation is Pearson's of the ranks, which is a function of sums over pairs:

.. math::  \rho = \frac{n \sum xy - \sum x \sum y}{\sqrt{(n \sum x^2 - (\sum x)^2) (n \sum y^2 - (\sum y)^2)}}

Tested in tests/tasks/embed/test_evaluation.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from catena.errors import ConfigError, DataError
from catena.metrics.classification import ACCURACY
from catena.metrics.correlation import ranks
from catena.metrics.intervals import Interval
from catena.metrics.measure import Metric
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult

_NORMAL_QUANTILE = 1.959963984540054
"""The 0.975 quantile of the normal distribution."""


def _rank_products(
    ratings: Sequence[float] | np.ndarray, cosines: Sequence[float] | np.ndarray
) -> Float[np.ndarray, "n 6"]:
    """The terms of the sums for each pair. Ranks are centered, so that the sums stay small."""
    middle = (len(ratings) + 1) / 2
    x, y = ranks(ratings) - middle, ranks(cosines) - middle
    return np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=-1)


def _correlation(sums: Float[np.ndarray, "*batch 6"]) -> Float[np.ndarray, "*batch"]:
    """The correlation of ranks; nan if all ratings or all cosines are equal."""
    n, x, y, xy, xx, yy = np.moveaxis(sums, -1, 0)
    size = np.sqrt(np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0))
    return np.divide(n * xy - x * y, size, out=np.full(np.shape(size), np.nan), where=size > 0)


_METRICS = {"accuracy": ACCURACY, "spearman": Metric("spearman", _rank_products, _correlation)}


def find_metric(name: str) -> Metric:
    """The metric of a score."""
    if name not in _METRICS:
        raise ConfigError(f"Unknown metric {name!r} of word vectors: {did_you_mean(name, _METRICS)}")
    return _METRICS[name]


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
        return {self.metric: find_metric(self.metric)}

    def pairs(self, name: str) -> tuple[list[Any], list[Any]]:
        return self.references, self.predictions

    def interval(self, name: str) -> Interval | None:
        """The 95 % interval of a score.

        Spearman's correlation of a resample can be undefined, so its interval comes from Fisher's transform with the
        variance 1.06 / (n - 3) (Fieller, Hartley & Pearson 1957); None for fewer than 4 pairs.
        """
        if name != "spearman":
            return super().interval(name)
        rho, n = self.scores()[name], len(self.references)
        if n < 4 or not abs(rho) < 1:
            return None
        half = _NORMAL_QUANTILE * math.sqrt(1.06 / (n - 3))
        low, high = math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)
        return Interval(rho, low, high, 0.95, "fisher", n)

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
