"""Predictions of regression, and their evaluation.

Scores of predicted Gaussians: errors, correlations and the log-likelihood. Imports no torch.

Tested in tests/tasks/regress/test_evaluation.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catena.metrics.correlation import PEARSON, SPEARMAN
from catena.metrics.intervals import Interval, bootstrap_score_interval, fisher_interval
from catena.metrics.measure import Metric
from catena.metrics.regression import GAUSSIAN_LOG_LIKELIHOOD, MAE, R2, RMSE
from catena.metrics.resampling import bootstrap_sums
from catena.tasks.base import EvaluationResult, Prediction
from catena.tasks.regress.config import METRICS


@dataclass(frozen=True)
class ValuePrediction(Prediction):
    """A predicted number with its uncertainty. Prints as the number.

    Args:
        value: the mean of the predicted Gaussian.
        std: its standard deviation.
        low: the lower end of the interval of the chosen probability.
        high: the upper end.
        text: the input text or the path of the file; None if the model reads numbers only.
        numbers: the input numbers by column; nan where one was missing.
    """

    value: float
    std: float
    low: float
    high: float
    text: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns without a number, for which the mean of the training data was used."""
        return tuple(name for name, number in self.numbers.items() if number != number)

    def __str__(self) -> str:
        return f"{self.value:.6g}"

    def to_dict(self) -> dict[str, Any]:
        inputs: dict[str, Any] = {} if self.text is None else {"text": self.text}
        if self.numbers:
            inputs["numbers"] = dict(self.numbers)
        return {**inputs, "value": self.value, "std": self.std, "low": self.low, "high": self.high}

    def to_rows(self) -> list[dict[str, Any]]:
        found = {"value": self.value, "std": self.std, "low": self.low, "high": self.high}
        text = {} if self.text is None else {"text": self.text}
        return [{**found, **{f"number {name}": number for name, number in self.numbers.items()}, **text}]


# --- evaluation -------------------------------------------------------------------------------------------------------


ALL_METRICS: dict[str, Metric] = dict(
    zip(METRICS, (RMSE, MAE, R2, PEARSON, SPEARMAN, GAUSSIAN_LOG_LIKELIHOOD), strict=True)
)
_SPREADS = {"pearson": 1.0, "spearman": 1.06}
"""The variance of Fisher's transform of a correlation, times n - 3."""


@dataclass(frozen=True, eq=False)
class RegressEvaluation(EvaluationResult):
    """Predicted Gaussians and the values that they predict.

    Args:
        gold: the values.
        means: the predicted means.
        deviations: the predicted standard deviations.
    """

    gold: np.ndarray
    means: np.ndarray
    deviations: np.ndarray
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        """All metrics; without correlations if there is a single example."""
        few = len(self.gold) < 2
        return {name: metric for name, metric in ALL_METRICS.items() if not (few and name in _SPREADS)}

    def pairs(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        if name == "log_likelihood":
            return self.gold, np.stack((self.means, self.deviations), axis=1)
        return self.gold, self.means

    def interval(self, name: str) -> Interval | None:
        """The 95 % interval of a score: Fisher's of correlations, otherwise by resampling.

        None for a single example, and if the score does not exist for some resample.
        """
        if name in _SPREADS:
            return fisher_interval(self.scores()[name], len(self.gold), spread=_SPREADS[name])
        metric, rows = self.metrics()[name], self._statistics(name, self.metrics()[name])
        if len(rows) < 2 or not np.isfinite(rows).all():
            return None
        scores = metric.score(bootstrap_sums(rows, 1000, np.random.default_rng(0)))
        if not np.isfinite(scores).all():
            return None
        return bootstrap_score_interval(rows, metric.score, np.random.default_rng(0))

    def coverage(self) -> float:
        """The fraction of values inside the 95 % interval of their prediction."""
        return float(np.mean(np.abs(self.gold - self.means) <= 1.959963984540054 * self.deviations))

    def details(self) -> list[str]:
        return [
            f"values inside their 95 % interval: {100 * self.coverage():.1f} %",
            f"values: mean {self.gold.mean():.4g}, standard deviation {self.gold.std():.4g}, "
            f"from {self.gold.min():.4g} to {self.gold.max():.4g}",
        ]

    def details_dict(self) -> dict[str, Any]:
        return {"coverage": self.coverage(), "n": len(self.gold)}
