r"""Reference implementation of adaptive linear predictors by recursive least squares.

.. math::
    \hat x_t = w_t^\top [x_{t-1}, \dots, x_{t-m}] \qquad
    w_t = \arg\min_w \sum_{i < t} \lambda^{t-1-i} (x_i - w^\top [x_{i-1}, \dots, x_{i-m}])^2 + \lambda^t \|w\|^2 / c

for each order m, with the forgetting factor :math:`\lambda = 1 - 1 / (3 m)` and c = :data:`START`; values before the
first one are 0. The inverse P of the weighted covariance is updated by each value: with the past values a and the gain
g = P a,

.. math::
    w \leftarrow w + \frac{g}{\lambda + a^\top g} (x_t - \hat x_t) \qquad
    P \leftarrow \frac 1 \lambda \Big( P - \frac{g g^\top}{\lambda + a^\top g} \Big)

Haykin, Adaptive Filter Theory, chapter 10. Where values do not excite a direction, as in digital silence, P would grow
without limit, so nothing is forgotten while its trace is above :data:`LARGEST`. A value costs O(m²) and the state has
m² + 2 m + 4 numbers for each predictor.

Nothing depends on later values. A prediction has four numbers, :data:`PARTS`: its mean, limited to -1 … 1; the running
mean sizes of its errors, over about 100 and about 8 values; and the last error. Tested in
tests/kernels/linear_prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Float64

PARTS = ("mean", "slow scale", "fast scale", "error")
"""The numbers of a prediction."""
START = 100.0
"""The diagonal of the inverse covariance before the first value."""
SCALE = 0.2
"""The size of prediction errors before the first one."""
KEPT = (0.99, 0.88)
"""The fraction of the slow and the fast scale that is kept after each value."""
MEMORY = 3
"""Values that a predictor remembers, for each of its coefficients; measured on speech and music at 8 kHz."""
LARGEST = 1e10
"""The largest trace of an inverse covariance with which values are still forgotten."""


def count_values(order: int) -> int:
    """The size of the state of one predictor: the prediction, the past, the coefficients and the inverse covariance."""
    return len(PARTS) + 2 * order + order * order


def start(orders: Sequence[int], n: int) -> Float64[np.ndarray, "n s"]:
    """The states of ``n`` series before their first values."""
    parts = []
    for order in orders:
        part = np.zeros(count_values(order))
        part[1:3] = SCALE
        part[len(PARTS) + 2 * order :] = (np.eye(order) * START).ravel()
        parts.append(part)
    return np.tile(np.concatenate([*parts, np.zeros(0)]), (n, 1))


def read_(
    orders: Sequence[int], states: Float64[np.ndarray, "n s"], values: Float[np.ndarray, "n t"]
) -> Float32[np.ndarray, "n t p 4"]:
    """Read values; the states are changed in place.

    Args:
        orders: the number of coefficients of each predictor.
        states: of :func:`start`.
        values: from -1 to 1.

    Returns:
        The prediction of what follows each value.
    """
    found = np.empty((*values.shape, len(orders), len(PARTS)), np.float32)
    for state, row, predictions in zip(states, values, found, strict=True):
        for t, value in enumerate(row):
            first = 0
            for p, order in enumerate(orders):
                part = state[first : first + count_values(order)]
                _read_value(part, order, float(value))
                predictions[t, p] = part[: len(PARTS)]
                first += count_values(order)
    return found


def _read_value(part: Float64[np.ndarray, " s"], order: int, value: float) -> None:
    past = part[4 : 4 + order]
    weights = part[4 + order : 4 + 2 * order]
    inverse = part[4 + 2 * order :].reshape(order, order)
    part[3] = value - part[0]
    for i, kept in enumerate(KEPT, 1):
        part[i] = kept * part[i] + (1 - kept) * abs(part[3])
    forgetting = 1 - 1 / (MEMORY * order) if np.trace(inverse) < LARGEST else 1.0
    gain = inverse @ past
    norm = math.sqrt(forgetting + max(float(gain @ past), 0.0))
    gain /= norm  # so that the update is exactly symmetric
    weights += gain / norm * (value - weights @ past)
    inverse -= np.outer(gain, gain)
    inverse /= forgetting
    past[1:] = past[:-1].copy()
    past[0] = value
    part[0] = min(max(float(weights @ past), -1.0), 1.0)
