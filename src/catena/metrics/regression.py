r"""Metrics of predicted numbers: errors, the explained fraction of the variance, and the Gaussian log-likelihood.

.. math::  \log p(y) = -\tfrac12 \log 2 \pi \sigma^2 - \frac{(y - \mu)^2}{2 \sigma^2}

All are functions of sums over examples. Tested in tests/metrics/test_regression.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.metrics.correlation import pair_numbers
from catena.metrics.measure import Metric, MetricValue, mean_score, mean_statistics

_Numbers = Sequence[float | int] | Float[np.ndarray, " n"]


def rmse(references: _Numbers, predictions: _Numbers) -> MetricValue:
    """The root of the mean squared error.

    Args:
        references: the correct values.
        predictions: the predicted values, in the same order.
    """
    return RMSE(references, predictions)


def mae(references: _Numbers, predictions: _Numbers) -> MetricValue:
    """The mean absolute error.

    Args:
        references: the correct values.
        predictions: the predicted values, in the same order.
    """
    return MAE(references, predictions)


def r2(references: _Numbers, predictions: _Numbers) -> MetricValue:
    """The explained fraction of the variance, 1 - Σ(y - p)² / Σ(y - mean)²; nan if all references are equal.

    Args:
        references: the correct values.
        predictions: the predicted values, in the same order.
    """
    return R2(references, predictions)


def gaussian_log_probs(
    references: _Numbers, means: Float[np.ndarray, " n"], deviations: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The log-density of each reference, in nats. A deviation of 0 gives -inf, or inf if the mean is exact."""
    errors, deviations = np.asarray(references, np.float64) - means, np.asarray(deviations, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = -0.5 * math.log(2 * math.pi) - np.log(deviations) - 0.5 * (errors / deviations) ** 2
    return np.where(deviations > 0, found, np.where(errors == 0, np.inf, -np.inf))


def _squared_errors(references: _Numbers, predictions: _Numbers) -> Float[np.ndarray, "n 2"]:
    y, p = pair_numbers(references, predictions, 1)
    return mean_statistics((y - p) ** 2)


def _absolute_errors(references: _Numbers, predictions: _Numbers) -> Float[np.ndarray, "n 2"]:
    y, p = pair_numbers(references, predictions, 1)
    return mean_statistics(np.abs(y - p))


def _variances(references: _Numbers, predictions: _Numbers) -> Float[np.ndarray, "n 4"]:
    """The terms of R2. References are centered, so that the sums of squares do not cancel."""
    y, p = pair_numbers(references, predictions, 1)
    centered = y - y[0] - (y - y[0]).mean()
    return np.stack([np.ones_like(y), centered, centered**2, (y - p) ** 2], axis=-1)


def _explained(sums: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch"]:
    n, y, yy, errors = np.moveaxis(sums, -1, 0)
    total = yy - y * y / n
    total = np.where(total > 1e-12 * yy, total, 0.0)  # what is left of equal references is rounding
    return np.asarray(1 - np.divide(errors, total, out=np.full(np.shape(total), np.nan), where=total > 0))


def _log_probs(references: _Numbers, predictions: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    """The log-density of each reference; ``predictions[i]`` is the mean and the standard deviation."""
    return mean_statistics(gaussian_log_probs(references, predictions[:, 0], predictions[:, 1]))


RMSE = Metric("rmse", _squared_errors, lambda sums: np.sqrt(mean_score(sums)), higher_is_better=False)
MAE = Metric("mae", _absolute_errors, mean_score, higher_is_better=False)
R2 = Metric("r2", _variances, _explained)
GAUSSIAN_LOG_LIKELIHOOD = Metric("gaussian-log-likelihood|unit:nats", _log_probs, mean_score)
"""The mean log-density; a prediction is a mean and a standard deviation."""
