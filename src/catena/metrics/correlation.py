r"""Correlation of two lists of numbers: Pearson's r of the values, Spearman's rho of their ranks.

.. math::  r = \frac{\sum (x - \bar x)(y - \bar y)}{\sqrt{\sum (x - \bar x)^2 \sum (y - \bar y)^2}}

Equal values get the mean of their ranks. :data:`PEARSON` and :data:`SPEARMAN` are the same as functions of sums over
pairs, for resampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.errors import DataError
from catena.metrics.measure import Metric, MetricValue, signature

_Numbers = Sequence[float | int] | Float[np.ndarray, " n"]


def pearson(x: _Numbers, y: _Numbers) -> MetricValue:
    """Pearson's correlation; nan if all values of one list are equal."""
    return MetricValue(_pearson(*pair_numbers(x, y)), signature("pearson", len(x)))


def spearman(x: _Numbers, y: _Numbers) -> MetricValue:
    """Spearman's rank correlation; nan if all values of one list are equal."""
    a, b = pair_numbers(x, y)
    return MetricValue(_pearson(ranks(a), ranks(b)), signature("spearman", len(x)))


def ranks(values: _Numbers) -> Float[np.ndarray, " n"]:
    """The rank of each value, from 1 for the smallest. Equal values get the mean of their ranks."""
    given = np.asarray(values, np.float64)
    _, places, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places.reshape(-1)]


def pair_numbers(x: _Numbers, y: _Numbers, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Two lists of finite numbers as arrays of the same length, which is at least ``least``."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(a) != len(b) or len(a) < least:
        raise DataError(
            f"x and y must have the same length, at least {least}, got {len(a)} and {len(b)} values. Pass paired "
            f"values."
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise DataError("The paired values must be finite, got nan or inf. Remove these pairs.")
    return a, b


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    dx, dy = _centered(x), _centered(y)
    size = math.sqrt(float(dx @ dx)) * math.sqrt(float(dy @ dy))
    return float(dx @ dy) / size if size > 0 else math.nan


def _centered(values: np.ndarray) -> np.ndarray:
    """Values minus their mean, scaled by a power of 2 to about 1, so that squares do not overflow or underflow.

    Equal values become exactly 0, because their rounded mean may differ from them.
    """
    scaled = np.ldexp(values, -math.frexp(float(np.abs(values).max()))[1])
    less = scaled - scaled[0]
    return np.asarray(less - less.mean())


# --- as functions of sums ---------------------------------------------------------------------------------------------


def _products(x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "n 6"]:
    return np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=-1)


def _value_products(x: _Numbers, y: _Numbers) -> Float[np.ndarray, "n 6"]:
    """The terms of the sums for each pair. Values are centered, so that the sums stay small."""
    a, b = pair_numbers(x, y)
    return _products(_centered(a), _centered(b))


def _rank_products(x: _Numbers, y: _Numbers) -> Float[np.ndarray, "n 6"]:
    middle = (len(x) + 1) / 2
    return _products(ranks(x) - middle, ranks(y) - middle)


def _correlation(sums: Float[np.ndarray, "*batch 6"]) -> Float[np.ndarray, "*batch"]:
    """The correlation from sums; nan if all values of one list are equal."""
    n, x, y, xy, xx, yy = np.moveaxis(sums, -1, 0)
    size = np.sqrt(np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0))
    return np.divide(n * xy - x * y, size, out=np.full(np.shape(size), np.nan), where=size > 0)


PEARSON = Metric("pearson", _value_products, _correlation)
SPEARMAN = Metric("spearman", _rank_products, _correlation)
