"""Output layers by plain loops and math, one number at a time. Slow, obvious, and sharing nothing with Catena."""

from __future__ import annotations

import heapq
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


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def contrastive_loss(odds: Matrix, targets: Sequence[int], noise: Sequence[Sequence[int]]) -> float:
    """The mean over rows of the loss of classifying target and noise words, given the log-odds of every word."""
    total = 0.0
    for row, target, drawn in zip(odds, targets, noise, strict=True):
        total -= log_sigmoid(row[target]) + sum(log_sigmoid(-row[w]) for w in drawn)
    return total / len(targets)


def sampled_loss(
    every: Matrix, targets: Sequence[int], drawn: Sequence[int], log_expected: Sequence[float], remove_hits: bool
) -> float:
    total = 0.0
    for row, target in zip(every, targets, strict=True):
        others = [row[w] - log_expected[w] for w in drawn if not (remove_hits and w == target)]
        own = row[target] - log_expected[target]
        total -= own - log_sum([own, *others])
    return total / len(targets)


def huffman_cost(counts: Sequence[int]) -> int:
    """The sum of count times depth of the best tree, by the textbook's heap."""
    heap, total = list(counts), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        merged = heapq.heappop(heap) + heapq.heappop(heap)
        total += merged
        heapq.heappush(heap, merged)
    return total


def walk(children: Sequence[Sequence[int]]) -> dict[int, list[tuple[int, bool]]]:
    """The way to each leaf, as (node, whether it turns left); child -1 - j is leaf j."""
    if not children:
        return {0: []}
    found = {}
    waiting: list[tuple[int, list[tuple[int, bool]]]] = [(0, [])]
    while waiting:
        node, way = waiting.pop()
        for child, left in zip(children[node], (True, False), strict=True):
            if child < 0:
                found[-1 - child] = [*way, (node, left)]
            else:
                waiting.append((child, [*way, (node, left)]))
    return found
