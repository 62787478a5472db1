"""The best k of many scores, block by block: what is kept is a heap for each query. Knows nothing of what is scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, njit

from catena.kernels.common.jit import FLOATS, FLOATS2, LONGS2, lazy_jit


@njit(nogil=True, forceinline=True)
def _push(scores: Any, places: Any, q: int, k: int, score: Any, place: int) -> None:
    """Put a score in place of the worst, which is at the top of the heap. Of equal ones the first place is kept."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= k:
            break
        if child + 1 < k and _worse(scores, places, q, child + 1, child):
            child += 1
        if scores[q, child] > score or (scores[q, child] == score and places[q, child] < place):
            break
        scores[q, i] = scores[q, child]
        places[q, i] = places[q, child]
        i = child
    scores[q, i] = score
    places[q, i] = place


@njit(nogil=True, forceinline=True)
def _worse(scores: Any, places: Any, q: int, a: int, b: int) -> bool:
    return scores[q, a] < scores[q, b] or (scores[q, a] == scores[q, b] and places[q, a] > places[q, b])


@lazy_jit(FLOATS2, FLOATS, int64, FLOATS2, LONGS2)
def keep_best(found: Any, norms: Any, base: int, scores: Any, places: Any) -> None:
    """Bring the scores of a block, ``found[q, i] / norms[i]`` for place ``base + i``, into the heaps.

    ``scores[q]`` and ``places[q]`` hold the best so far, the worst of them first; -inf where there is none yet.
    """
    k = scores.shape[1]
    for q in range(found.shape[0]):
        for i in range(found.shape[1]):
            score = found[q, i] / norms[i]
            if score > scores[q, 0]:
                _push(scores, places, q, k, score, base + i)


@lazy_jit(FLOATS2, LONGS2, int64, boolean, FLOATS, LONGS2, FLOATS2, LONGS2)
def keep_best_analogies(
    cosines: Any, questions: Any, base: int, multiply: bool, weights: Any, excluded: Any, scores: Any, places: Any
) -> None:
    """Bring the scores of ``a is to b as c is to ?`` into heaps, from cosines with a block of words.

    ``cosines[u, i]`` is the cosine of query word ``u`` with word ``base + i``. Question ``q`` has the query words
    ``questions[q]`` = a, b, c, and the words ``excluded[q]`` are skipped. The score is the cosine with b - a + c, up to
    its length, which is the same for all answers (``weights`` of a, b, c); or, with ``multiply``,
    cos(b) cos(c) / (cos(a) + 0.001) of cosines moved to 0 … 1 (Levy and Goldberg 2014).
    """
    k = scores.shape[1]
    half = np.float32(0.5)
    little = np.float32(0.001)
    for q in range(len(questions)):
        a, b, c = questions[q, 0], questions[q, 1], questions[q, 2]
        for i in range(cosines.shape[1]):
            if multiply:
                near = (half + half * cosines[b, i]) * (half + half * cosines[c, i])
                score = near / (half + half * cosines[a, i] + little)
            else:
                score = weights[0] * cosines[a, i] + weights[1] * cosines[b, i] + weights[2] * cosines[c, i]
            if score > scores[q, 0]:
                place = base + i
                free = True
                for e in range(excluded.shape[1]):
                    free = free and excluded[q, e] != place
                if free:
                    _push(scores, places, q, k, score, place)
