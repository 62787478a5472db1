"""Which n-grams a model can do without: those whose absence changes its distribution least."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64

from catena.kernels.array_types import BYTES, DOUBLES, FLOATS, INTS, LONGS
from catena.kernels.jit import lazy_jit


@lazy_jit(INTS, LONGS, FLOATS, int64, DOUBLES)
def history_log_probs(first: Any, bases: Any, log_probs: Any, begin: int, found: Any) -> None:
    """The log-probability of each history as a string; the begin of a sentence is certain."""
    found[0] = 0.0
    for g in range(len(found)):
        for c in range(first[g], min(first[g + 1], len(found))):
            found[c] = found[g] + (0.0 if c == 1 + begin else log_probs[c])


@lazy_jit(INTS, INTS, FLOATS, FLOATS, DOUBLES, int64, int64, float64, BYTES, BYTES)
def chosen(
    first: Any, suffix: Any, log_probs: Any, backoffs: Any, strings: Any, low: int, high: int, threshold: float,
    bound: Any, kept: Any,
) -> None:  # fmt: skip
    """Set ``kept`` to 0 for the words after histories low … high - 1 whose loss costs less than the threshold.

    The cost is the relative rise of perplexity, as if nothing else were left out. Stolcke (1998), eq. 3 to 6.
    ``bound`` n-grams stay.
    """
    for g in range(low, high):
        given, below = 0.0, 0.0
        for c in range(first[g], first[g + 1]):
            given += np.exp(np.float64(log_probs[c]))
            below += np.exp(np.float64(log_probs[suffix[c]]))
        left = max(1.0 - given, 0.0)
        for c in range(first[g], first[g + 1]):
            log_p, log_q = np.float64(log_probs[c]), np.float64(log_probs[suffix[c]])
            p, q = np.exp(log_p), np.exp(log_q)
            room = 1.0 - below + q
            if bound[c] or p <= 0.0 or q <= 0.0 or room <= 1e-9:
                continue
            weight = np.log((left + p) / room)
            rise = np.float64(backoffs[g])
            change = p * (log_q + weight - log_p)
            if left > 0.0:
                change += left * (weight - rise)
            if np.expm1(-np.exp(strings[g]) * change) < threshold:
                kept[c] = 0


@lazy_jit(INTS, INTS, FLOATS, FLOATS, int64, int64, BYTES)
def renormalize_backoffs(
    first: Any, suffix: Any, log_probs: Any, backoffs: Any, low: int, high: int, kept: Any
) -> None:
    """Back-off weights that make the sums one again, of histories that lost words."""
    for g in range(low, high):
        given, below, words, lost = 0.0, 0.0, 0, 0
        for c in range(first[g], first[g + 1]):
            if kept[c]:
                given += np.exp(np.float64(log_probs[c]))
                below += np.exp(np.float64(log_probs[suffix[c]]))
                words += 1
            else:
                lost += 1
        if lost:
            backoffs[g] = np.log(max(1.0 - given, 1e-30) / (1.0 - below)) if words else 0.0
