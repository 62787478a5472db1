"""Lists of the k best alternatives, for k-best searches (Huang & Chiang 2005, algorithm 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(nogil=True)
def place_way(scores: Any, ways: Any, n: int, value: float, a: int, b: int, c: int) -> int:
    """Put a way (a, b, c) of this value where it belongs among the ``n`` best so far; how many there are then."""
    width = scores.shape[0]
    at = min(n, width - 1)
    while at > 0 and scores[at - 1] < value:
        scores[at] = scores[at - 1]
        for x in range(3):
            ways[at, x] = ways[at - 1, x]
        at -= 1
    scores[at] = value
    ways[at, 0], ways[at, 1], ways[at, 2] = a, b, c
    return min(n + 1, width)


@njit(nogil=True)
def top_of_lists(lists: Any, added: Any, scores: Any, ways: Any) -> int:
    """The best ways (number of a list, place in it) among sorted lists, each with something added; how many exist."""
    width = scores.shape[0]
    n = 0
    for a in range(lists.shape[0]):
        for place in range(width):
            value = lists[a, place] + added[a]
            if value == -np.inf or (n == width and value <= scores[width - 1]):
                break
            n = place_way(scores, ways, n, value, a, place, 0)
    for place in range(n, width):
        scores[place] = -np.inf
    return n
