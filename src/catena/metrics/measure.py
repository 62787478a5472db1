"""Values with signatures, and metrics as functions of sums over examples.

Many corpus metrics (accuracy, F1, BLEU, attachment) are not means over examples, but each is a function of *sums* over
examples: hits, predictions, references. A :class:`Metric` is the pair of both steps. Resampling and swapping of
examples (intervals, significance) only add up rows of statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from catena.errors import DataError

LabelSequence = Sequence[Hashable] | np.ndarray
"""One label for each example."""


LOG_PROB_TOLERANCE = 1e-5
"""Relative tolerance of log-probabilities: ARPA files round to six or seven digits, float32 sums to about seven."""


class MetricValue(float):
    """A float with a signature of the metric, its options and the number of examples."""

    __slots__ = ("_signature",)
    _signature: str

    def __new__(cls, value: float, signature: str) -> MetricValue:
        score = super().__new__(cls, value)
        score._signature = signature
        return score

    @property
    def signature(self) -> str:
        return self._signature

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]  # for copying
        return float(self), self._signature

    def __repr__(self) -> str:
        return f"Score({float(self)!r}, {self._signature!r})"

    def __str__(self) -> str:
        return repr(float(self))


def signature(name: str, n: int, options: Mapping[str, object] | None = None) -> str:
    """The signature of a metric in the style of sacrebleu (Post 2018): ``f1|average:macro|n=1821``."""
    return "|".join((name, *(f"{key}:{value}" for key, value in (options or {}).items()), f"n={n}"))


@dataclass(frozen=True)
class Metric:
    """A corpus metric that is a function of sums over examples.

    Args:
        name: the signature without its last part, such as ``f1|average:macro``.
        statistics: maps references and predictions to ``statistics[i, j]``, the j-th statistic of example i.
        score: maps sums of statistics, ``sums[..., j]``, to the metric, for any number of corpora.
        tolerance: statistics of one example that differ by at most this fraction are equal up to the rounding of a
            stored model; 0 for counts.
        over: maps references and the predictions of every compared system to the metric with columns for all of them,
            if the columns depend on the labels that occur.
        higher_is_better: whether a higher score is better, as for accuracy, or a lower one, as for error rates.
    """

    name: str
    statistics: Callable[..., np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    tolerance: float = 0.0
    over: Callable[..., Metric] | None = None
    higher_is_better: bool = True

    def __call__(self, references: Sequence[Any] | np.ndarray, predictions: Sequence[Any] | np.ndarray) -> MetricValue:
        return self.value(self.statistics(references, predictions))

    def value(self, rows: np.ndarray) -> MetricValue:
        """The value for examples with these statistics."""
        return MetricValue(float(self.score(rows.sum(0))), signature(self.name, len(rows)))


def mean_statistics(values: Float[np.ndarray, "n"] | Sequence[float]) -> Float[np.ndarray, "n 2"]:
    """The statistics of a mean: each example adds its value, and one to the count."""
    column = np.asarray(values, dtype=np.float64)
    return np.stack((column, np.ones_like(column)), axis=-1)


def mean_score(sums: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
    """The mean, from the sums of :func:`mean_statistics`."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def safe_ratio(above: np.ndarray | np.number, below: np.ndarray | np.number) -> np.ndarray:
    """above / below, or 0 where below is 0."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=np.asarray(below) != 0)


def as_pairs(name: str, references: Sequence[Any] | np.ndarray, predictions: Sequence[Any] | np.ndarray) -> LabelPairs:
    """References and predictions as lists of the same length, at least 1. ``name`` is used in errors."""
    if len(references) != len(predictions):
        raise DataError(
            f"{name} needs one prediction for each reference, got {len(references)} references and {len(predictions)} "
            f"predictions. Match them."
        )
    if len(references) == 0:
        raise DataError(f"{name} needs at least one example, got none. Pass a reference and its prediction.")
    return _as_list(name, "references", references), _as_list(name, "predictions", predictions)


LabelPairs = tuple[list[Any], list[Any]]


def _as_list(name: str, what: str, values: Any) -> list[Any]:
    # Tensors compare by identity, so each would be its own label; they are treated like arrays.
    if not hasattr(values, "tolist"):
        return [x.tolist() if getattr(x, "ndim", None) == 0 else x for x in values]
    if values.ndim != 1:
        raise DataError(
            f"{name} needs one label for each example, got {what} of shape {tuple(values.shape)}. Pass a 1-d array."
        )
    return values.tolist()
