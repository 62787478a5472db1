r"""Calibration: whether confidence matches accuracy, and the temperature that makes it match.

Guo et al. (2017), sections 2 and 4.2. Temperature scaling divides all logits by one number,
:math:`p = \mathrm{softmax}(z / T)`, which does not change the argmax. In :math:`\beta = 1/T` the negative
log-likelihood

.. math::  L(\beta) = \frac1n \sum_i \Big( \log \sum_j e^{\beta z_{ij}} - \beta z_{i y_i} \Big)

is convex, with derivative :math:`E[z] - z_y` and second derivative :math:`Var[z]`, so it is minimized by Newton's
method. If all n predictions are correct, the minimum would be at temperature 0, where every probability is 1. So the
temperature is fitted to the targets of Platt (1999), section 2.2: the correct label has probability (n + 1) / (n + 2),
by the rule of succession, and the others divide the rest, which counts as much as one wrong prediction in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from catena.errors import DataError
from catena.metrics.measure import MetricValue, signature
from catena.metrics.probabilities import IdSequence, Rows, as_ids_and_rows, check_probabilities

LOWEST_TEMPERATURE = 0.01
HIGHEST_TEMPERATURE = 100.0
"""Bounds of the temperature. It is unbounded for models worse than random, and 0 for correct ones with tiny logits."""


@dataclass(frozen=True)
class Bin:
    """The examples with confidence above ``low`` and at most ``high``. Means are None if there are none."""

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None

    @property
    def gap(self) -> float:
        """The difference between accuracy and confidence; 0 for an empty bin."""
        if self.confidence is None or self.accuracy is None:
            return 0.0
        return abs(self.accuracy - self.confidence)


def reliability_bins(ids: IdSequence, probabilities: Rows, bins: int = 15) -> tuple[Bin, ...]:
    """Examples by the probability of the predicted label, in bins of equal width (Guo et al. 2017, figure 1)."""
    right, rows = as_ids_and_rows("calibration", ids, probabilities)
    check_probabilities(rows)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}. Use 15.")
    confidences = rows.max(1)
    correct = rows.argmax(1) == right
    edges = np.linspace(0, 1, bins + 1)
    # Right-closed bins: a confidence of exactly 0.5 belongs to (0.4, 0.5].
    places = np.clip(np.searchsorted(edges, confidences, side="left") - 1, 0, bins - 1)
    found = []
    for b in range(bins):
        inside = places == b
        n = int(inside.sum())
        means = (float(confidences[inside].mean()), float(correct[inside].mean())) if n else (None, None)
        found.append(Bin(float(edges[b]), float(edges[b + 1]), n, *means))
    return tuple(found)


def expected_calibration_error(ids: IdSequence, probabilities: Rows, bins: int = 15) -> MetricValue:
    """The mean gap of the bins, weighted by their examples. Signature ``ece|bins:15|n=…``.

    Args:
        ids: ``ids[i]`` is the index of the gold label of example i.
        probabilities: ``probabilities[i][k]`` is the probability of label k.
        bins: number of bins of equal width, by the probability of the predicted label.
    """
    found = reliability_bins(ids, probabilities, bins)
    n = sum(b.n for b in found)
    return MetricValue(math.fsum(b.n * b.gap for b in found) / n, signature("ece", n, {"bins": bins}))


def temperature_loss(logits: Rows, labels: IdSequence, temperature: float) -> MetricValue:
    """The mean negative log-likelihood, in nats, of softmax(logits / temperature)."""
    right, rows = _checked_logits(logits, labels)
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}. Use 1.")
    scaled = rows / temperature
    losses = np.log(np.exp(scaled).sum(1)) - scaled[np.arange(len(rows)), right]
    return MetricValue(float(losses.mean()), signature("nll", len(rows), {"temperature": f"{temperature:.6g}"}))


def fit_temperature(logits: Rows, labels: IdSequence) -> float:
    """The temperature from 0.01 to 100 with the lowest loss against smoothed targets; 1 if all are equal.

    If all n predictions are correct with equal margins, each gets the probability (n + 1) / (n + 2), for any
    margin. For binary multilabel logits, pass rows (0, logit), with label 1 for yes.

    Args:
        logits: ``logits[i][k]`` is the score of label k for example i.
        labels: ``labels[i]`` is the index of the gold label of example i.
    """
    right, rows = _checked_logits(logits, labels)
    wanted = _wanted_means(rows, right)
    low, high = 1 / HIGHEST_TEMPERATURE, 1 / LOWEST_TEMPERATURE
    gradient, curvature = _slope_and_curvature(rows, wanted, 1.0)
    if gradient == 0 and curvature == 0:
        return 1.0
    if _slope_and_curvature(rows, wanted, low)[0] >= 0:
        return HIGHEST_TEMPERATURE
    if _slope_and_curvature(rows, wanted, high)[0] <= 0:
        return LOWEST_TEMPERATURE
    beta = 1.0
    for _ in range(200):
        gradient, curvature = _slope_and_curvature(rows, wanted, beta)
        low, high = (beta, high) if gradient < 0 else (low, beta)
        newton = beta - gradient / curvature if curvature > 0 else math.inf
        if abs(newton - beta) <= 1e-13 * beta:
            break
        beta = newton if low < newton < high else math.sqrt(low * high)
    return 1 / beta


def _checked_logits(logits: Rows, labels: IdSequence) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n k"]]:
    """Ids, and logits minus the highest of each row, which does not change probabilities."""
    right, rows = as_ids_and_rows("temperature", labels, logits)
    highest = rows.max(1, keepdims=True)
    if not np.isfinite(highest).all() or np.isneginf(rows[np.arange(len(rows)), right]).any():
        raise DataError(
            "Logits must be finite for the correct label of each example and never +inf, got others. Remove examples "
            "whose label the model cannot predict."
        )
    return right, rows - highest


def _wanted_means(rows: Float[np.ndarray, "n k"], right: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The mean logit of each row under its target, in which the other possible labels divide 1 / (n + 2)."""
    possible = np.isfinite(rows)
    possible[np.arange(len(rows)), right] = False
    others = possible.sum(1)
    means = np.where(possible, rows, 0.0).sum(1) / np.maximum(others, 1)
    spared = np.where(others > 0, 1 / (len(rows) + 2), 0.0)
    return (1 - spared) * rows[np.arange(len(rows)), right] + spared * means


def _slope_and_curvature(
    rows: Float[np.ndarray, "n k"], wanted: Float[np.ndarray, "n"], beta: float
) -> tuple[float, float]:
    weights = np.exp(beta * rows)
    weights /= weights.sum(1, keepdims=True)
    finite = np.where(weights > 0, rows, 0.0)  # 0 times -inf is 0 here
    means = (weights * finite).sum(1)
    variances = (weights * (finite - means[:, None]) ** 2).sum(1)
    return float((means - wanted).mean()), float(variances.mean())
