"""All labeled segmentations of a sequence with their scores, one by one. Imports nothing of catena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

Segment = tuple[int, int, int]


def _cuts(n: int, longest: int) -> Iterator[list[tuple[int, int]]]:
    """All ways to cut ``n`` positions into segments of at most ``longest``."""
    if n == 0:
        yield []
    for last in range(1, min(n, longest) + 1):
        for before in _cuts(n - last, longest):
            yield [*before, (n - last, n)]


def all_segmentations(
    scores: Sequence[Sequence[Sequence[float]]],
    transitions: Sequence[Sequence[float]] | None,
    start: Sequence[float] | None,
    end: Sequence[float] | None,
    n: int,
) -> list[tuple[tuple[Segment, ...], float]]:
    """Every labeled segmentation of the first ``n`` positions as (begin, end, label) triples, filled up with -1."""
    longest, labels = len(scores[0]), len(scores[0][0])
    found = []
    for cuts in _cuts(n, longest):
        for choice in itertools.product(range(labels), repeat=len(cuts)):
            terms = [scores[i][j - i - 1][y] for (i, j), y in zip(cuts, choice, strict=True)]
            if transitions is not None:
                terms += [transitions[x][y] for x, y in itertools.pairwise(choice)]
            if cuts and start is not None:
                terms.append(start[choice[0]])
            if cuts and end is not None:
                terms.append(end[choice[-1]])
            segments = [(i, j, y) for (i, j), y in zip(cuts, choice, strict=True)]
            segments += [(-1, -1, -1)] * (len(scores) - len(segments))
            found.append((tuple(segments), -math.inf if -math.inf in terms else math.fsum(terms)))
    return found
