"""Phrase-structure trees by listing every binary form: slow, obvious, sharing nothing with what it checks."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

Brackets = frozenset[tuple[int, int, int]]
"""Rows (first, last, label) of the phrases of a tree; label 0 is not a phrase and is left out."""


def binary_trees(i: int, j: int) -> Iterator[list[tuple[int, int]]]:
    """The spans of every binary tree over the words i to j, both included."""
    if i == j:
        yield [(i, j)]
        return
    for k in range(i, j):
        for left in binary_trees(i, k):
            for right in binary_trees(k + 1, j):
                yield [(i, j), *left, *right]


def weights_of_trees(scores: Sequence[Sequence[Sequence[float]]]) -> dict[Brackets, float]:
    """The summed weight of the binary forms of each tree; ``scores[i][j][q]``."""
    n, k = len(scores), len(scores[0][0])
    found: dict[Brackets, float] = defaultdict(float)
    for spans in binary_trees(0, n - 1):
        for labels in itertools.product(range(k), repeat=len(spans)):
            total = math.fsum(scores[i][j][q] for (i, j), q in zip(spans, labels, strict=True))
            tree = frozenset((i, j, q) for (i, j), q in zip(spans, labels, strict=True) if q)
            found[tree] += math.exp(total)
    return found


def best_binary_form(scores: Sequence[Sequence[Sequence[float]]], tree: Brackets) -> float:
    """The largest score of a binary form of a tree."""
    n = len(scores)
    labels = {(i, j): q for i, j, q in tree}
    best = -math.inf
    for spans in binary_trees(0, n - 1):
        if set(labels) <= set(spans):
            best = max(best, math.fsum(scores[i][j][labels.get((i, j), 0)] for i, j in spans))
    return best


def crosses(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two spans overlap and neither is inside the other."""
    a, b = set(range(one[0], one[1] + 1)), set(range(other[0], other[1] + 1))
    return bool(a & b) and bool(a - b) and bool(b - a)


def largest_margin(scores: Sequence[Sequence[Sequence[float]]], gold: Brackets, margin: float) -> float:
    """The best score of any binary tree with ``margin`` for each span that is not as in the tree, less its own."""
    n, k = len(scores), len(scores[0][0])
    right = {(i, j): q for i, j, q in gold}
    best = -math.inf
    for spans in binary_trees(0, n - 1):
        total = 0.0
        for span in spans:
            bad = any(crosses(span, other) for other in right)
            total += max(
                scores[span[0]][span[1]][q] + (margin if bad or q != right.get(span, 0) else 0.0) for q in range(k)
            )
        best = max(best, total)
    return max(0.0, best - best_binary_form(scores, gold))
