"""Edit distances, weights of misspellings and paths of word lattices, by their definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache


def edit_distance(a: str, b: str) -> int:
    """The fewest edits from a to b, transpositions of neighbors included; no character is edited twice."""

    @cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        ways = [distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])]
        if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1]:
            ways.append(distance(i - 2, j - 2) + 1)
        return min(ways)

    return distance(len(a), len(b))


def deletes(word: str, most: int) -> set[str]:
    """What is left of a word without at most ``most`` of its characters."""
    return {
        "".join(c for i, c in enumerate(word) if i not in gone)
        for n in range(min(most, len(word)) + 1)
        for gone in itertools.combinations(range(len(word)), n)
    }


def scripts(true: str, observed: str) -> Iterator[list[tuple[str, int, str]]]:
    """All sequences of edits from one word to the other: kind, position in the true word, and what is written."""

    def after(i: int, j: int) -> Iterator[list[tuple[str, int, str]]]:
        if i == len(true) and j == len(observed):
            yield []
        if j < len(observed):
            yield from ([("insert", i, observed[j]), *rest] for rest in after(i, j + 1))
        if i < len(true):
            yield from ([("delete", i, ""), *rest] for rest in after(i + 1, j))
        if i < len(true) and j < len(observed):
            kind = "copy" if true[i] == observed[j] else "substitute"
            yield from ([(kind, i, observed[j]), *rest] for rest in after(i + 1, j + 1))
        if i + 1 < len(true) and observed[j : j + 2] == true[i + 1] + true[i] and true[i] != true[i + 1]:
            yield from ([("transpose", i, observed[j : j + 2]), *rest] for rest in after(i + 2, j + 2))

    return after(0, 0)


def misspelling_weight(true: str, observed: str, weight: Callable[[str, str, int, str], float]) -> float:
    """The sum over all scripts of the product of ``weight(kind, true, position, written)`` of their edits."""
    return math.fsum(
        math.prod(weight(kind, true, i, written) for kind, i, written in script) for script in scripts(true, observed)
    )


def lattice_paths(edges: Sequence[tuple[int, int]], last: int) -> Iterator[list[int]]:
    """All paths from node 0 to the last node, as indices of edges (start, end)."""

    def after(node: int) -> Iterator[list[int]]:
        if node == last:
            yield []
        for e, (start, end) in enumerate(edges):
            if start == node:
                yield from ([e, *rest] for rest in after(end))

    return after(0)
