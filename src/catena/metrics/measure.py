"""What every metric shares: scores that say how they were made, and measures that are functions of sums.

Many metrics of a whole corpus (accuracy, F1, BLEU, attachment) are no means over examples, yet each is a
function of *sums* over examples: hits, predictions, references. A :class:`Metric` is the pair of both steps.
Whoever resamples or swaps examples (intervals, significance) adds up rows of statistics, and never looks at a
label again.

Plain sequences and numpy arrays; no torch.
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
    """A number with a signature that says which metric it is, with which choices, over how many examples."""

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
    """A metric in one line, in the manner of sacrebleu (Post 2018): ``f1|average:macro|n=1821``."""
    return "|".join((name, *(f"{key}:{value}" for key, value in (options or {}).items()), f"n={n}"))


@dataclass(frozen=True)
class Metric:
    """A metric of a corpus that is a function of sums over its examples.

    Args:
        name: the signature without its last part, such as ``f1|average:macro``.
        statistics: from references and predictions to ``statistics[i, j]``, the j-th number that example i adds.
        score: from sums of statistics, ``sums[..., j]``, to the metric; works on many corpora at once.
        tolerance: statistics of one example that differ by at most this fraction are equal but for the rounding of a
            stored model; 0 for counts.
        over: from references and the predictions of every system that is compared to the measure with columns for all
            of them, where the columns depend on the labels that occur.
    """

    name: str
    statistics: Callable[..., np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    tolerance: float = 0.0
    over: Callable[..., Metric] | None = None

    def __call__(self, references: Sequence[Any] | np.ndarray, predictions: Sequence[Any] | np.ndarray) -> MetricValue:
        rows = self.statistics(references, predictions)
        return MetricValue(float(self.score(rows.sum(0))), signature(self.name, len(rows)))


def mean_statistics(values: Float[np.ndarray, "n"] | Sequence[float]) -> Float[np.ndarray, "n 2"]:
    """The statistics of a plain mean: each example adds its value, and one to the count."""
    column = np.asarray(values, dtype=np.float64)
    return np.stack((column, np.ones_like(column)), axis=-1)


def mean_score(sums: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
    """The mean, from the sums of :func:`mean_statistics`."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def safe_ratio(above: np.ndarray | np.number, below: np.ndarray | np.number) -> np.ndarray:
    """above / below, and 0 where there is nothing to be right about."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=np.asarray(below) != 0)


def as_pairs(name: str, references: Sequence[Any] | np.ndarray, predictions: Sequence[Any] | np.ndarray) -> LabelPairs:
    """References and predictions as plain lists of one length above 0; ``name`` is for the error."""
    if len(references) != len(predictions):
        raise DataError(
            f"{name} needs one prediction for each reference, "
            f"but there are {len(references)} references and {len(predictions)} predictions"
        )
    if len(references) == 0:
        raise DataError(f"{name} of no examples is not defined: give at least one reference and its prediction")
    return _as_list(name, "references", references), _as_list(name, "predictions", predictions)


LabelPairs = tuple[list[Any], list[Any]]


def _as_list(name: str, what: str, values: Any) -> list[Any]:
    # Tensors know no equals but themselves, so that each would be a label of its own; they are asked as arrays are.
    if not hasattr(values, "tolist"):
        return [x.tolist() if getattr(x, "ndim", None) == 0 else x for x in values]
    if values.ndim != 1:
        raise DataError(f"{name} needs one label for each example, but the shape of {what} is {tuple(values.shape)}")
    return values.tolist()
