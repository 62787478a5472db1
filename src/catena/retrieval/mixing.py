r"""A log-linear ranker: the scores of several matchers, weighed so that right answers are likely.

.. math::  p(r \mid c) \propto \exp \sum_k w_k s_k(c, r)

over the candidates of a question. The weights are those under which the right candidates are most probable, less a
small penalty, by Newton's method: the problem is convex, so they are the best there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from catena.errors import DataError

_ROUNDS = 100


def fit_weights(
    questions: Sequence[Float[np.ndarray, "_ k"]], penalty: float = 1e-3
) -> tuple[Float[np.ndarray, " k"], float]:
    """The weight of each matcher, and the mean -log p of the right candidate, which is the first of each question.

    ``questions[i][j, k]`` is the score of candidate j of question i by matcher k. ``penalty`` is the weight of the
    sum of squares of the weights, in units in which each matcher's scores vary by 1.
    """
    if not questions:
        raise DataError("a mixture cannot be weighed without a question: give dev data")
    k = questions[0].shape[1]
    centered = [np.asarray(q, np.float64) - np.asarray(q, np.float64).mean(0) for q in questions]
    spread = np.sqrt(np.mean(np.concatenate(centered) ** 2, axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    centered = [q / spread for q in centered]
    weights = np.zeros(k)
    loss, gradient, curve = _terms(centered, weights, penalty)
    for _ in range(_ROUNDS):
        step = np.linalg.lstsq(curve, gradient, rcond=None)[0]  # the shortest: matchers may say the same, or nothing
        size = 1.0
        while True:  # a shorter step where the whole one leads uphill
            new = _terms(centered, weights - size * step, penalty)
            if new[0] <= loss or size < 1e-8:
                break
            size /= 2
        weights = weights - size * step
        loss, gradient, curve = new
        if np.abs(gradient).max() < 1e-10:
            break
    return weights / spread, float(loss - penalty * weights @ weights)


def _terms(
    questions: Sequence[np.ndarray], weights: np.ndarray, penalty: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """The penalized loss, its gradient and its matrix of second derivatives."""
    k, n = len(weights), len(questions)
    loss, gradient, curve = penalty * weights @ weights, 2 * penalty * weights, 2 * penalty * np.eye(k)
    for q in questions:
        scores = q @ weights
        top = scores.max()
        p = np.exp(scores - top)
        total = p.sum()
        p /= total
        mean = p @ q
        loss += (top + np.log(total) - scores[0]) / n
        gradient = gradient + (mean - q[0]) / n
        curve = curve + ((q * p[:, None]).T @ q - np.outer(mean, mean)) / n
    return float(loss), gradient, curve
