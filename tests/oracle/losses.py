"""Losses of a classifier by their formulas, one example at a time, with the math module."""

from __future__ import annotations

import math


def softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    return [w / sum(weights) for w in weights]


def target(k: int, y: int, smoothing: float) -> list[float]:
    return [(1 - smoothing) * (j == y) + smoothing / k for j in range(k)]


def cross_entropy(scores: list[float], y: int, smoothing: float) -> float:
    q = target(len(scores), y, smoothing)
    return -sum(w * math.log(p) for w, p in zip(q, softmax(scores), strict=True))


def hinge(scores: list[float], y: int, smoothing: float) -> float:
    return max(0.0, 1 + max(s for j, s in enumerate(scores) if j != y) - scores[y])


def squared_error(scores: list[float], y: int, smoothing: float) -> float:
    q = target(len(scores), y, smoothing)
    return 0.5 * sum((w - p) ** 2 for w, p in zip(q, softmax(scores), strict=True))


def perceptron(scores: list[float], y: int, smoothing: float) -> float:
    return max(scores) - scores[y]


def several(name: str, scores: list[float], right: list[int]) -> float:
    total = 0.0
    for s, q in zip(scores, right, strict=True):
        p = 1 / (1 + math.exp(-s))
        sign = 1 if q else -1
        total += {
            "cross_entropy": -math.log(p if q else 1 - p),
            "hinge": max(0.0, 1 - sign * s),
            "squared_error": 0.5 * (q - p) ** 2,
            "perceptron": max(0.0, -sign * s),
        }[name]
    return total
