"""Response retrieval by loops: slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def bm25(query: Sequence[str], document: Sequence[str], corpus: Sequence[Sequence[str]], k1: float, b: float) -> float:
    """The formula, term by term of the query, repeated ones repeated."""
    mean = sum(len(one) for one in corpus) / len(corpus)
    total = 0.0
    for word in query:
        has = sum(word in one for one in corpus)
        rare = math.log(1 + (len(corpus) - has + 0.5) / (has + 0.5))
        times = list(document).count(word)
        if times:
            total += rare * times * (k1 + 1) / (times + k1 * (1 - b + b * len(document) / mean))
    return total


def expected_recall(scores: Sequence[float], k: int) -> float:
    """How often the first is among the best k, over every order in which equals may stand."""
    hits = orders = 0
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[c] for a, c in itertools.pairwise(order)):
            orders += 1
            hits += 0 in order[:k]
    return hits / orders


def expected_reciprocal_rank(scores: Sequence[float]) -> float:
    """1 / rank of the first, over every order in which equals may stand."""
    found = []
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[c] for a, c in itertools.pairwise(order)):
            found.append(1 / (order.index(0) + 1))
    return sum(found) / len(found)


def softmax_loss(scores: Sequence[Sequence[float]], allowed: Sequence[Sequence[bool]]) -> float:
    """The mean of both directions: own response among all columns, own context among all rows."""
    n, total = len(scores), 0.0
    for i in range(n):
        row = [math.exp(scores[i][j]) for j in range(len(scores[i])) if i == j or allowed[i][j]]
        column = [math.exp(scores[k][i]) for k in range(n) if i == k or allowed[k][i]]
        total -= math.log(math.exp(scores[i][i]) / sum(row)) + math.log(math.exp(scores[i][i]) / sum(column))
    return total / (2 * n)


def binary_loss(scores: Sequence[float], labels: Sequence[float]) -> float:
    """The mean of -y ln p - (1 - y) ln(1 - p)."""
    total = 0.0
    for score, label in zip(scores, labels, strict=True):
        p = 1 / (1 + math.exp(-score))
        total -= label * math.log(p) + (1 - label) * math.log(1 - p)
    return total / len(scores)
