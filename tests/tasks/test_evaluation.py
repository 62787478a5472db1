"""Scores of evaluations: statistics are computed once for all metrics that need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from catena.metrics.measure import Metric, mean_score, mean_statistics
from catena.tasks.base import EvaluationResult
from catena.tasks.options import RankedOptions

CALLS: list[int] = []


def _equal(references: list[str], predictions: list[str]) -> np.ndarray:
    CALLS.append(len(references))
    return mean_statistics([float(a == b) for a, b in zip(references, predictions, strict=True)])


METRICS = {
    "right": Metric("right", _equal, mean_score),
    "wrong": Metric("wrong", _equal, lambda sums: 1 - mean_score(sums), higher_is_better=False),
    "first": Metric("first", _equal, mean_score),
}


@dataclass(frozen=True, eq=False)
class TextEvaluation(EvaluationResult):
    gold: list[str]
    predicted: list[str]

    def metrics(self) -> Mapping[str, Metric]:
        return METRICS

    def pairs(self, name: str) -> tuple[list[str], list[str]]:
        return (self.gold[:1], self.predicted[:1]) if name == "first" else (self.gold, self.predicted)


def test_statistics_are_shared_only_by_metrics_of_the_same_pairs() -> None:
    result = TextEvaluation(["a", "b", "c", "d"], ["a", "x", "c", "x"])
    CALLS.clear()
    assert result.scores() == {"right": 0.5, "wrong": 0.5, "first": 1.0}
    assert CALLS == [4, 1]
    interval = result.interval("right")
    assert interval is not None
    assert interval.value == 0.5
    assert result.interval("first") is None


def test_joined_results_are_scored_again() -> None:
    one, two = TextEvaluation(["a"], ["a"]), TextEvaluation(["b", "c"], ["x", "x"])
    assert one.scores()["right"] == 1.0
    assert one.join([one, two]).scores()["right"] == pytest.approx(1 / 3)


def test_n_best_and_samples_cannot_be_combined() -> None:
    assert not RankedOptions().several
    assert RankedOptions(n_best=2).several
    assert RankedOptions(samples=1).several
    with pytest.raises(ValueError, match="n_best and samples cannot be combined"):
        RankedOptions(n_best=2, samples=2)
