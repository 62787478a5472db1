"""Output layers by plain loops and math, one number at a time. Slow, obvious, and sharing nothing with Catena."""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def log_sum(values: Sequence[float]) -> float:
    top = max(values)
    return top if math.isinf(top) else top + math.log(sum(math.exp(value - top) for value in values))


def scores(hidden: Matrix, weight: Matrix, bias: Sequence[float] | None) -> list[list[float]]:
    return [
        [sum(a * b for a, b in zip(h, row, strict=True)) + (bias[w] if bias else 0.0) for w, row in enumerate(weight)]
        for h in hidden
    ]


def softmax_log_probs(
    hidden: Matrix, weight: Matrix, bias: Sequence[float] | None, temperature: float = 1.0
) -> list[list[float]]:
    found = []
    for row in scores(hidden, weight, bias):
        scaled = [score / temperature for score in row]
        total = log_sum(scaled)
        found.append([score - total for score in scaled])
    return found
