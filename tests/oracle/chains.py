"""All tag sequences of a chain with their scores, one by one. Imports nothing of catena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

Table = Sequence[Sequence[float]]


def all_chains(
    emissions: Table,
    transitions: Table | None,
    start: Sequence[float] | None,
    end: Sequence[float] | None,
    steps: Sequence[Table] | None,
    real: Sequence[bool],
) -> list[tuple[tuple[int, ...], float]]:
    """Every assignment of tags to the real positions, -1 elsewhere, and its score."""
    places = [i for i, is_real in enumerate(real) if is_real]
    found = []
    for choice in itertools.product(range(len(emissions[0])), repeat=len(places)):
        terms = [emissions[i][q] for i, q in zip(places, choice, strict=True)]
        for n in range(1, len(places)):
            if transitions is not None:
                terms.append(transitions[choice[n - 1]][choice[n]])
            if steps is not None:
                terms.append(steps[places[n]][choice[n - 1]][choice[n]])
        if places and start is not None:
            terms.append(start[choice[0]])
        if places and end is not None:
            terms.append(end[choice[-1]])
        tags = [-1] * len(real)
        for i, q in zip(places, choice, strict=True):
            tags[i] = q
        score = -math.inf if -math.inf in terms else math.fsum(terms)
        found.append((tuple(tags), score))
    return found
