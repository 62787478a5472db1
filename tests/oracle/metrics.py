"""Metrics by their definitions: fractions, loops, enumeration. Slow, obvious, sharing nothing with Catena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction

Pairs = Sequence[tuple[frozenset, frozenset]]
"""The set of right labels and the set of predicted ones, for each example."""


def ratio(above: int, below: int) -> Fraction:
    return Fraction(above, below) if below else Fraction(0)


def label_scores(label: Hashable, pairs: Pairs) -> tuple[Fraction, Fraction, Fraction]:
    """Precision, recall and F1 of one label."""
    true_positives = sum(1 for gold, predicted in pairs if label in gold and label in predicted)
    false_positives = sum(1 for gold, predicted in pairs if label not in gold and label in predicted)
    false_negatives = sum(1 for gold, predicted in pairs if label in gold and label not in predicted)
    precision = ratio(true_positives, true_positives + false_positives)
    recall = ratio(true_positives, true_positives + false_negatives)
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else Fraction(0)


def averaged(pairs: Pairs, average: str, labels: Sequence[Hashable]) -> tuple[Fraction, Fraction, Fraction]:
    """Averages of precision, recall and F1 over labels; labels that never occur count as 0."""
    if average == "micro":  # every decision about a label is one example of a single question
        decisions = [
            (frozenset({1} if label in gold else ()), frozenset({1} if label in predicted else ()))
            for gold, predicted in pairs
            for label in labels
        ]
        return label_scores(1, decisions)
    weights = [1 if average == "macro" else sum(label in gold for gold, _ in pairs) for label in labels]
    scores = [label_scores(label, pairs) for label in labels]
    if not sum(weights):
        return Fraction(0), Fraction(0), Fraction(0)
    p, r, f = (
        sum((weight * score[i] for weight, score in zip(weights, scores, strict=True)), Fraction(0)) / sum(weights)
        for i in range(3)
    )
    return p, r, f


def occurring(pairs: Pairs, labels: Sequence[Hashable]) -> list[Hashable]:
    """The labels that are right or predicted somewhere."""
    return [label for label in labels if any(label in gold | predicted for gold, predicted in pairs)]


def top_k(ids: Sequence[int], rows: Sequence[Sequence[float]], k: int) -> Fraction:
    right = 0
    for label, row in zip(ids, rows, strict=True):
        ranked = sorted(range(len(row)), key=lambda j: (-row[j], j))
        right += label in ranked[:k]
    return Fraction(right, len(ids))


def log_loss(ids: Sequence[int], rows: Sequence[Sequence[float]]) -> float:
    losses = [-math.log(row[label]) if row[label] else math.inf for label, row in zip(ids, rows, strict=True)]
    return math.fsum(losses) / len(ids)


def brier(ids: Sequence[int], rows: Sequence[Sequence[float]]) -> float:
    return math.fsum(
        (p - (j == label)) ** 2 for label, row in zip(ids, rows, strict=True) for j, p in enumerate(row)
    ) / len(ids)


def calibration_error(ids: Sequence[int], rows: Sequence[Sequence[float]], bins: int) -> float:
    total = 0.0
    for b in range(bins):
        inside = []
        for label, row in zip(ids, rows, strict=True):
            confidence = max(row)
            if b / bins < confidence <= (b + 1) / bins:
                inside.append((confidence, row.index(confidence) == label))
        total += abs(math.fsum(c for c, _ in inside) - sum(right for _, right in inside))
    return total / len(ids)


def temperature_loss(rows: Sequence[Sequence[float]], ids: Sequence[int], temperature: float) -> float:
    losses = []
    for row, label in zip(rows, ids, strict=True):
        top = max(row)
        mass = math.fsum(math.exp((z - top) / temperature) for z in row)
        losses.append(math.log(mass) - (row[label] - top) / temperature)
    return math.fsum(losses) / len(ids)


def smoothed_loss(rows: Sequence[Sequence[float]], ids: Sequence[int], temperature: float) -> float:
    """Every label of an example is queried in turn: the gold one n + 1 times, the k - 1 others once in total."""
    n, k = len(ids), len(rows[0])
    losses = []
    for row, right in zip(rows, ids, strict=True):
        for label in range(k):
            times = n + 1 if label == right else 1 / (k - 1)
            losses.append(times / (n + 2) * temperature_loss([row], [label], temperature))
    return math.fsum(losses) / n


def best_temperature(rows: Sequence[Sequence[float]], ids: Sequence[int], low: float, high: float) -> float:
    """By golden section over the inverse temperature, against smoothed targets."""
    a, b = 1 / high, 1 / low
    shrink = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        c, d = b - shrink * (b - a), a + shrink * (b - a)
        if smoothed_loss(rows, ids, 1 / c) < smoothed_loss(rows, ids, 1 / d):
            b = d
        else:
            a = c
    return 2 / (a + b)


def wilson(successes: int, n: int, z: float) -> tuple[float, float]:
    """The proportions at which the observed one is exactly z standard errors away, by bisection."""

    def too_far(p: float) -> bool:
        return abs(successes / n - p) > z * math.sqrt(p * (1 - p) / n)

    ends = []
    for outside in (0.0, 1.0):
        inside = successes / n
        for _ in range(200):
            middle = (inside + outside) / 2
            if too_far(middle):
                outside = middle
            else:
                inside = middle
        ends.append(inside)
    return ends[0], ends[1]


def student_tail(t: float, df: int) -> float:
    """By Simpson's rule over the density, from 0 to t."""
    constant = math.gamma((df + 1) / 2) / (math.sqrt(df * math.pi) * math.gamma(df / 2))

    def density(x: float) -> float:
        return constant * (1 + x * x / df) ** (-(df + 1) / 2)

    steps = 2000
    h = t / steps
    inner = math.fsum((4 if i % 2 else 2) * density(i * h) for i in range(1, steps))
    return 0.5 - h / 3 * (density(0) + inner + density(t))


def binomial_at_most(k: int, n: int) -> Fraction:
    return Fraction(sum(math.comb(n, i) for i in range(k + 1)), 2**n)


Rows = Sequence[Sequence[float]]
ScoreOf = Callable[[Rows], float]


def bootstrap_differences(first: Rows, second: Rows, score: ScoreOf) -> Iterator[float]:
    """The difference of scores in every one of the n**n resamples."""
    for ids in itertools.product(range(len(first)), repeat=len(first)):
        yield score([first[i] for i in ids]) - score([second[i] for i in ids])


def swapped_differences(first: Rows, second: Rows, score: ScoreOf) -> Iterator[float]:
    """The difference of scores after every one of the 2**n ways to swap."""
    for coins in itertools.product((False, True), repeat=len(first)):
        a = [two if coin else one for one, two, coin in zip(first, second, coins, strict=True)]
        b = [one if coin else two for one, two, coin in zip(first, second, coins, strict=True)]
        yield score(a) - score(b)
