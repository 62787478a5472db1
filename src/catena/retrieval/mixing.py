r"""A log-linear ranker that weights the scores of several matchers by maximum likelihood.

.. math::  p(r \mid c) \propto \exp \sum_k w_k s_k(c, r)

over the candidates of a question. The weights maximize the probability of the correct candidates minus a small
penalty, by Newton's method: the problem is convex, so the optimum is global.
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
    """Return the weight of each matcher, and the mean -log p of the correct candidate.

    Args:
        questions: ``questions[i][j, k]`` is the score of candidate j of question i by matcher k. Candidate 0 is the
            correct one.
        penalty: weight of the sum of squares of the weights, in units in which the scores of each matcher vary by 1.
    """
    if not questions:
        raise DataError("The weights of a mixture cannot be fitted without a question. Pass dev data.")
    k = questions[0].shape[1]
    centered = [np.asarray(q, np.float64) - np.asarray(q, np.float64).mean(0) for q in questions]
    spread = np.sqrt(np.mean(np.concatenate(centered) ** 2, axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    centered = [q / spread for q in centered]
    weights = np.zeros(k)
    loss, gradient, curve = _terms(centered, weights, penalty)
    for _ in range(_ROUNDS):
        step = np.linalg.lstsq(curve, gradient, rcond=None)[0]  # minimum norm: matchers may be collinear or constant
        size = 1.0
        while True:  # shorten the step if the full one increases the loss
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
    """Return the penalized loss, its gradient and its matrix of second derivatives."""
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
