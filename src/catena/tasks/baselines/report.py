"""The comparison of a model with its baselines on the same examples.

Tested in tests/tasks/classify/test_baselines.py.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catena.metrics.significance import Comparison, approximate_randomization
from catena.tasks.base import EvaluationResult
from catena.tasks.baselines.fitting import BaselineSuite, FittedBaseline, check_installed

_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class BaselineRow:
    """The result of one model.

    Args:
        name: its name.
        scores: the value of every metric, by name.
        fit_seconds: the time to fit it; None if it is not known.
        predict_seconds: the time to predict the examples.
        n_bytes: the size of its parameters.
        comparison: the model of the run against this one; None for the model of the run itself.
        about: class, penalty and features.
    """

    name: str
    scores: dict[str, float]
    fit_seconds: float | None
    predict_seconds: float
    n_bytes: int
    comparison: Comparison | None = None
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class BaselineReport:
    """The results of a model and its baselines on the same examples.

    Args:
        part: what the examples are, such as ``test``.
        unit: what an example is.
        n: the number of examples.
        metric: the score that is compared.
        higher_is_better: its direction.
        own: the model of the run.
        rows: the baselines.
        version: the version of scikit-learn.
    """

    part: str
    unit: str
    n: int
    metric: str
    higher_is_better: bool
    own: BaselineRow
    rows: tuple[BaselineRow, ...]
    version: str

    def lines(self) -> list[str]:
        """A table, and which baselines are better than the model."""
        head = (
            f"baselines on {self.part}, {self.n:,} {self.unit}s: {self.metric}, difference of this model to the "
            f"baseline with 95 % interval, p-value, time to fit and to predict, size (scikit-learn {self.version})"
        )
        table = [_cells(row, self.metric) for row in (self.own, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        shown = ["  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip() for cells in table]
        return [head, *shown, self.verdict()]

    def verdict(self) -> str:
        """Which baselines are significantly better than the model."""
        better = [row.name for row in self.rows if self._wins(row)]
        if better:
            verb = "is" if len(better) == 1 else "are"
            return f"{' and '.join(better)} {verb} significantly better than this model"
        return "no baseline is significantly better than this model"

    def _wins(self, row: BaselineRow) -> bool:
        assert row.comparison is not None
        gain = -row.comparison.difference if self.higher_is_better else row.comparison.difference
        return gain > 0 and row.comparison.p_value < _SIGNIFICANT

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "part": self.part,
            "n": self.n,
            "metric": self.metric,
            "scikit_learn": self.version,
            "model": self.own.to_dict(),
            "baselines": [row.to_dict() for row in self.rows],
            "verdict": self.verdict(),
        }


class OwnBaselines(ABC):
    """Baselines of a task that are not chosen on dev, and that make their own report."""

    @abstractmethod
    def report(self, run: Path, names: Sequence[str], examples: Sequence[Any], file: str) -> BaselineReport:
        """Fit baselines to the training files of a run, and compare its model with them on the examples of a file."""


def compare_baselines(
    suite: BaselineSuite,
    baselines: Sequence[FittedBaseline],
    examples: Sequence[Any],
    *,
    part: str,
    metric: str,
    own_name: str,
    own_bytes: int,
    own_seconds: float | None = None,
) -> BaselineReport:
    """Evaluate the model of a task and its baselines on examples, with a paired test for each baseline.

    Args:
        suite: how examples become inputs.
        baselines: the fitted baselines.
        examples: examples with gold labels.
        part: what they are, such as ``test``.
        metric: the score to compare.
        own_name: the name of the model.
        own_bytes: the size of its parameters.
        own_seconds: the time of its training, if it is known.
    """
    examples = suite.usable(examples)
    result, seconds = _timed(lambda: suite.evaluate_model(examples))
    own = BaselineRow(f"this model ({own_name})", result.scores(), own_seconds, seconds, own_bytes)
    rows = tuple(_compare(suite, baseline, examples, result, metric) for baseline in baselines)
    higher = result.metrics()[metric].higher_is_better
    return BaselineReport(part, suite.unit, len(examples), metric, higher, own, rows, check_installed())


def _compare(
    suite: BaselineSuite, baseline: FittedBaseline, examples: Sequence[Any], own: EvaluationResult, metric: str
) -> BaselineRow:
    def predict() -> np.ndarray:
        return suite.scores(baseline.model, baseline.features.transform(suite.inputs(examples)))

    scores, seconds = _timed(predict)
    theirs = suite.evaluate(scores, baseline.calibration, examples)
    comparison = paired_comparison(own, theirs, metric)
    about = baseline.describe()
    return BaselineRow(baseline.name, theirs.scores(), baseline.seconds, seconds, baseline.n_bytes, comparison, about)


def paired_comparison(first: EvaluationResult, second: EvaluationResult, metric: str) -> Comparison:
    """The difference of a score of two models on the same examples, by approximate randomization."""
    one, two = first.paired(metric), second.paired(metric)
    used = one.metric.over(one.references, one.predictions, two.predictions) if one.metric.over else one.metric
    a, b = (used.statistics(side.references, side.predictions) for side in (one, two))
    rng = np.random.default_rng(0)
    return approximate_randomization(a, b, used.score, rng, metric=used.name, tolerance=used.tolerance)


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.monotonic()
    return function(), time.monotonic() - began


def _cells(row: BaselineRow, metric: str) -> tuple[str, ...]:
    found = row.comparison
    difference = p_value = ""
    if found is not None:
        difference = f"{found.difference:+.4f} ({found.interval.low:+.4f} to {found.interval.high:+.4f})"
        p_value = f"p = {found.p_value:.2g}"
    fit = "" if row.fit_seconds is None else f"{row.fit_seconds:.1f} s"
    size = f"{row.n_bytes / 1e6:.2f} MB"
    value = f"{row.scores[metric]:.4f}"
    return (row.name, value, difference, p_value, fit, f"{row.predict_seconds:.2f} s", size, row.about)
