"""The targets that edits write with the greatest probability, all ways to write each summed.

A beginning y₁ … y_j of a target is worth the weight of all targets that begin so: the sums α of arriving at each place
i of the source with y_j just written, times the weight β of all that may follow. No target that begins so is worth
more, so a search by length that never drops a beginning worth more than what it finds is exact, and knows that it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.floats import log_add
from catena.kernels.common.jit import DOUBLES, DOUBLES2, DOUBLES3, LONGS, lazy_jit
from catena.kernels.edits.reference_search import BAND


@njit(nogil=True)
def _rested(raw: Any, dele: Any, p: int, n: int, low: int, alpha: Any) -> int:
    """Deletions after a symbol was written: ``alpha`` of all places from ``low``; the last place that counts."""
    top = -np.inf
    for i in range(low, n + 1):
        alpha[i] = raw[i]
        if i > low:
            alpha[i] = log_add(alpha[i], alpha[i - 1] + dele[i - 1, p])
        top = max(top, alpha[i])
    high = n
    while high > low and alpha[high] < top - BAND:
        high -= 1
    return high


@njit(nogil=True)
def _arrivals(
    alpha: Any, low: int, high: int, sub: Any, ins: Any, p: int, q: int, n: int, beta: Any, raw: Any
) -> float:
    """``raw[i]``: writing q after p at each place from ``low``; what that beginning is worth."""
    worth = -np.inf
    for i in range(low, n + 1):
        raw[i] = -np.inf
        if i <= high:
            raw[i] = alpha[i] + ins[i, p, q]
        if i > low and i - 1 <= high:
            raw[i] = log_add(raw[i], alpha[i - 1] + sub[i - 1, p, q])
        if i > high + 1:
            break
        worth = log_add(worth, raw[i] + beta[i, q + 1])
    for i in range(high + 2, n + 1):
        raw[i] = -np.inf
    return worth


@njit(nogil=True)
def _first_within(raw: Any, low: int, n: int) -> int:
    """The first place from ``low`` on that is within the band of the best."""
    top = -np.inf
    for i in range(low, n + 1):
        top = max(top, raw[i])
    while low < n and raw[low] < top - BAND:
        low += 1
    return low


@njit(nogil=True)
def _ranked(
    text: Any, score: float, count: int, wanted: int, most: int, found: Any, lengths: Any, scores: Any
) -> int:  # fmt: skip
    """Put a target among the best, in the order of scores; the last falls out where they are full. Their number."""
    place = min(count, wanted - 1)
    while place > 0 and scores[place - 1] < score:
        scores[place] = scores[place - 1]
        lengths[place] = lengths[place - 1]
        found[place * most : place * most + lengths[place]] = found[
            (place - 1) * most : (place - 1) * most + lengths[place]
        ]
        place -= 1
    scores[place] = score
    lengths[place] = len(text)
    found[place * most : place * most + len(text)] = text
    return min(count + 1, wanted)


@lazy_jit(DOUBLES3, DOUBLES3, DOUBLES2, DOUBLES, DOUBLES2, int64, int64, int64, int64, LONGS, LONGS, DOUBLES)
def strings(
    sub: Any, ins: Any, dele: Any, end: Any, beta: Any, n: int, wanted: int, width: int, most: int,
    found: Any, lengths: Any, scores: Any,
) -> tuple[int, float]:  # fmt: skip
    """The ``wanted`` best targets of at most ``most`` symbols by a beam of ``width`` beginnings of each length.

    Written to ``found``, ``most`` places for each. Returns how many there are, and the greatest worth of a beginning
    that was dropped: where it is below the last score, nothing better was missed.
    """
    v = len(end) - 1
    beam = np.empty((width, n + 1))
    lows = np.zeros(width, np.int64)
    highs = np.zeros(width, np.int64)
    lasts = np.zeros(width, np.int64)
    texts = np.empty((width, most), np.int64)
    new_beam = np.empty_like(beam)
    new_texts = np.empty_like(texts)
    new_lows = np.empty_like(lows)
    new_highs = np.empty_like(highs)
    new_lasts = np.empty_like(lasts)
    raw = np.full(n + 1, -np.inf)
    raw[0] = 0.0
    highs[0] = _rested(raw, dele, 0, n, 0, beam[0])
    size = 1
    count = 0
    dropped = -np.inf
    worths = np.empty(width * v)
    for j in range(most + 1):
        for k in range(size):
            if highs[k] == n:
                score = beam[k, n] + end[lasts[k]]
                if score > -np.inf and (count < wanted or score > scores[count - 1]):
                    count = _ranked(texts[k, :j], score, count, wanted, most, found, lengths, scores)
        least = scores[wanted - 1] if count == wanted else -np.inf
        for k in range(size):
            for q in range(v):
                worths[k * v + q] = _arrivals(beam[k], lows[k], highs[k], sub, ins, lasts[k], q, n, beta, raw)
        order = np.argsort(-worths[: size * v])
        kept = 0
        for c in range(size * v):
            worth = worths[order[c]]
            if not worth > least:
                break
            if kept == width or j == most:
                dropped = max(dropped, worth)
                break
            k = order[c] // v
            q = order[c] % v
            _arrivals(beam[k], lows[k], highs[k], sub, ins, lasts[k], q, n, beta, raw)
            low = _first_within(raw, lows[k], n)
            new_highs[kept] = _rested(raw, dele, q + 1, n, low, new_beam[kept])
            new_lows[kept] = low
            new_lasts[kept] = q + 1
            new_texts[kept, :j] = texts[k, :j]
            new_texts[kept, j] = q
            kept += 1
        beam, new_beam = new_beam, beam
        texts, new_texts = new_texts, texts
        lows, new_lows = new_lows, lows
        highs, new_highs = new_highs, highs
        lasts, new_lasts = new_lasts, lasts
        size = kept
        if size == 0:
            break
    return count, dropped
