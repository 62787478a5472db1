"""All alignments of two sequences with their scores, one by one, and the textbook edit distance.

Imports nothing of catena.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

Table = Sequence[Sequence[float]]
Ids = tuple[int, ...]


def added(terms: Sequence[float]) -> float:
    return -math.inf if -math.inf in terms else math.fsum(terms)


def all_alignments(
    substitutions: Table, insertions: Table, deletions: Table, n: int, m: int, width: int
) -> list[tuple[Ids, float]]:
    """Every order of operations (0 substitutes, 1 inserts, 2 deletes) that uses up ``n`` and ``m`` positions.

    Filled up with -1 to ``width`` numbers.
    """

    def ways(i: int, j: int) -> Iterator[tuple[list[int], list[float]]]:
        if i == n and j == m:
            yield [], []
        if i < n and j < m:
            for rest, terms in ways(i + 1, j + 1):
                yield [0, *rest], [substitutions[i][j], *terms]
        if j < m:
            for rest, terms in ways(i, j + 1):
                yield [1, *rest], [insertions[i][j], *terms]
        if i < n:
            for rest, terms in ways(i + 1, j):
                yield [2, *rest], [deletions[i][j], *terms]

    return [((*rest, *[-1] * (width - len(rest))), added(terms)) for rest, terms in ways(0, 0)]


def cells_of(operations: Sequence[int]) -> list[tuple[int, int, int]]:
    """(operation, source position, target position) for each operation, the positions before it is done."""
    found, i, j = [], 0, 0
    for operation in operations:
        if operation >= 0:
            found.append((operation, i, j))
            i += operation != 1
            j += operation != 2
    return found


def all_one_to_one(
    scores: Table, source_gaps: Sequence[float], target_gaps: Sequence[float], n: int, m: int, width: int
) -> list[tuple[Ids, float]]:
    """Every set of pairs that do not cross, with no position in two: the partner of each source position, or -1."""
    found = []
    for size in range(min(n, m) + 1):
        for rows in itertools.combinations(range(n), size):
            for columns in itertools.combinations(range(m), size):
                pairs = dict(zip(rows, columns, strict=True))
                terms = [scores[i][j] for i, j in pairs.items()]
                terms += [source_gaps[i] for i in range(n) if i not in rows]
                terms += [target_gaps[j] for j in range(m) if j not in columns]
                found.append((tuple(pairs.get(i, -1) for i in range(width)), added(terms)))
    return found


def collapsed(labels: Sequence[int], blank: int) -> list[int]:
    """What a path of CTC says: repeats first made one, then blanks left out."""
    return [label for label, _ in itertools.groupby(labels) if label != blank]


def all_ctc_paths(emissions: Table, target: Sequence[int], n: int, blank: int) -> list[tuple[Ids, float]]:
    """Every labeling of the first ``n`` frames that collapses to the target, -1 behind them."""
    v, width = len(emissions[0]), len(emissions)
    found = []
    for labels in itertools.product(range(v), repeat=n):
        if collapsed(labels, blank) == list(target):
            score = added([emissions[t][q] for t, q in enumerate(labels)])
            found.append(((*labels, *[-1] * (width - n)), score))
    return found


def edit_distance(a: Sequence[object], b: Sequence[object]) -> int:
    """The fewest insertions, deletions and substitutions that make ``b`` of ``a``, by the recursive definition."""

    @functools.cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        if a[i - 1] == b[j - 1]:
            return distance(i - 1, j - 1)
        return 1 + min(distance(i - 1, j - 1), distance(i - 1, j), distance(i, j - 1))

    return distance(len(a), len(b))


def warping_paths(n: int, m: int) -> list[list[tuple[int, int]]]:
    """Every walk over cells from (0, 0) to (n - 1, m - 1) by steps down, right or both."""
    if n == 1 and m == 1:
        return [[(0, 0)]]
    found = []
    for di, dj in ((1, 0), (0, 1), (1, 1)):
        if n - di >= 1 and m - dj >= 1:
            found += [[*path, (n - 1, m - 1)] for path in warping_paths(n - di, m - dj)]
    return found
