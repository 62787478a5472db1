"""Moments of a list of (structure, score) pairs, by their definitions.

Imports nothing of catena.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def log_add(scores: Sequence[float]) -> float:
    """log Σ exp(score), by a correctly rounded sum."""
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(s - top) for s in scores))


def probabilities(scores: Sequence[float]) -> list[float]:
    total = log_add(scores)
    return [0.0 if s == -math.inf else math.exp(s - total) for s in scores]


def expectation(scores: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(p * v for p, v in zip(probabilities(scores), values, strict=True) if p > 0)


def covariance(scores: Sequence[float], a: Sequence[float], b: Sequence[float]) -> float:
    mean_a, mean_b = expectation(scores, a), expectation(scores, b)
    return math.fsum(
        p * (x - mean_a) * (y - mean_b) for p, x, y in zip(probabilities(scores), a, b, strict=True) if p > 0
    )


def entropy(scores: Sequence[float]) -> float:
    return -math.fsum(p * math.log(p) for p in probabilities(scores) if p > 0)


def cross_entropy(scores: Sequence[float], others: Sequence[float]) -> float:
    total = log_add(others)
    if any(p > 0 and q == -math.inf for p, q in zip(probabilities(scores), others, strict=True)):
        return math.inf
    return -math.fsum(p * (q - total) for p, q in zip(probabilities(scores), others, strict=True) if p > 0)


def chi_square(counts: Sequence[int], chances: Sequence[float]) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom; cells expected fewer than five times are pooled."""
    n = sum(counts)
    cells = [(c, n * p) for c, p in zip(counts, chances, strict=True)]
    large = [cell for cell in cells if cell[1] >= 5]
    small = [cell for cell in cells if cell[1] < 5]
    if small and sum(expected for _, expected in small) > 0:
        large.append((sum(c for c, _ in small), sum(expected for _, expected in small)))
    return math.fsum((c - e) ** 2 / e for c, e in large), len(large) - 1
