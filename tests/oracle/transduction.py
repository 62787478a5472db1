"""Strings to strings by listing every way: edits, segmentations into units, and n-grams of them. No catena."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence


def log_add(values: Sequence[float]) -> float:
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(v - top) for v in values))


def edit_scripts(n: int, y: Sequence[int]) -> Iterator[list[tuple[str, int, int, int]]]:
    """All ways to write y for a source of n symbols: (edit, position, symbol before + 1 or 0, symbol written or -1)."""

    def onward(i: int, j: int) -> Iterator[list[tuple[str, int, int, int]]]:
        p = y[j - 1] + 1 if j else 0
        if i == n and j == len(y):
            yield [("end", i, p, -1)]
        if i < n:
            for rest in onward(i + 1, j):
                yield [("delete", i, p, -1), *rest]
        if j < len(y):
            for rest in onward(i, j + 1):
                yield [("insert", i, p, y[j]), *rest]
        if i < n and j < len(y):
            for rest in onward(i + 1, j + 1):
                yield [("substitute", i, p, y[j]), *rest]

    return onward(0, 0)


def segmentations(
    x: Sequence[int], y: Sequence[int], moves: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """All ways to cut a pair into units whose sizes are among the moves."""
    if not x and not y:
        yield []
    for a, b in moves:
        if a <= len(x) and b <= len(y):
            for rest in segmentations(x[a:], y[b:], moves):
                yield [(tuple(x[:a]), tuple(y[:b])), *rest]


def expected_units(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    moves: Sequence[tuple[int, int]],
    log_prob: Callable[[tuple[tuple[int, ...], tuple[int, ...]]], float],
) -> tuple[dict[tuple[tuple[int, ...], tuple[int, ...]], float], float]:
    """Expected counts of units under the posterior of all segmentations, and the log-likelihood."""
    counts: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    whole = 0.0
    for x, y in pairs:
        ways = list(segmentations(x, y, moves))
        scores = [math.fsum(log_prob(unit) for unit in way) for way in ways]
        total = log_add(scores)
        if total == -math.inf:
            continue
        whole += total
        for way, score in zip(ways, scores, strict=True):
            for unit in way:
                counts[unit] = counts.get(unit, 0.0) + math.exp(score - total)
    return counts, whole


def distance(a: Sequence[object], b: Sequence[object]) -> int:
    """Edit distance by its recursion."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        distance(a[1:], b) + 1,
        distance(a, b[1:]) + 1,
        distance(a[1:], b[1:]) + (a[0] != b[0]),
    )
