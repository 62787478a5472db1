r"""A log-linear ranker that weights the scores of several matchers by maximum likelihood.

.. math::  p(r \mid c) \propto \exp \sum_k w_k s_k(c, r)

over the candidates of a question. The weights maximize the probability of the correct candidates minus a small
penalty, by Newton's method: the problem is convex, so the optimum is global.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

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
    rows = np.concatenate(centered) / spread
    starts = np.cumsum([0, *(len(q) for q in centered[:-1])])
    weights = np.zeros(k)
    loss, gradient, curve = _terms(rows, starts, weights, penalty)
    for _ in range(_ROUNDS):
        step = np.linalg.lstsq(curve, gradient, rcond=None)[0]  # minimum norm: matchers may be collinear or constant
        size = 1.0
        while True:  # shorten the step if the full one increases the loss
            new = _terms(rows, starts, weights - size * step, penalty)
            if new[0] <= loss or size < 1e-8:
                break
            size /= 2
        if new[0] > loss:  # the optimum, up to rounding
            break
        weights = weights - size * step
        loss, gradient, curve = new
        if np.abs(gradient).max() < 1e-10:
            break
    return weights / spread, float(loss - penalty * weights @ weights)


def _terms(
    rows: Float[np.ndarray, "m k"], starts: Int[np.ndarray, " n"], weights: np.ndarray, penalty: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the penalized loss, its gradient and its matrix of second derivatives.

    Args:
        rows: the candidates of all questions.
        starts: the row of the first candidate of each question.
        weights: the weights.
        penalty: weight of their sum of squares.
    """
    n, k = len(starts), len(weights)
    sizes = np.diff(np.append(starts, len(rows)))
    scores = rows @ weights
    top = np.maximum.reduceat(scores, starts)
    p = np.exp(scores - np.repeat(top, sizes))
    total = np.add.reduceat(p, starts)
    expected = rows * (p / np.repeat(total, sizes))[:, None]
    means = np.add.reduceat(expected, starts)
    loss = penalty * weights @ weights + float((top + np.log(total) - scores[starts]).mean())
    gradient = 2 * penalty * weights + (means - rows[starts]).mean(0)
    curve = 2 * penalty * np.eye(k) + (expected.T @ rows - means.T @ means) / n
    return float(loss), gradient, curve
