"""Probabilities from counts, one pass over a level of the trie, and pruning.

The trie is described in :mod:`catena.kernels.ngram.cpu_counts`. Pruning removes the n-grams whose absence changes the
distribution of the model least.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64

from catena.kernels.common.jit import BYTES, DOUBLES, FLOATS, INTS, LONGS, lazy_jit


@lazy_jit(INTS, BYTES, INTS, INTS, int64, int64, DOUBLES, float64, DOUBLES, DOUBLES)
def estimate_interpolated(
    counts: Any, kept: Any, first: Any, suffix: Any, low: int, high: int,
    discounts: Any, weight_of_types: float, probs: Any, backoffs: Any,
) -> None:  # fmt: skip
    r"""p(w | h) = (c(hw) - D) / total + backoff(h) p(w | h') for the words after the histories low … high - 1.

    ``discounts[c]`` is D of count c, the last one that of all greater counts. The total is Σ c(hw), and
    ``weight_of_types`` times the number of different words. Whatever is not given to an n-gram that is kept goes to
    the back-off weight. A history without words has back-off weight 1.
    """
    last = len(discounts) - 1
    for g in range(low, high):
        total = 0.0
        given = 0.0
        types = 0
        for c in range(first[g], first[g + 1]):
            n = counts[c]
            total += n
            types += n > 0
            if kept[c]:
                given += n - discounts[min(n, last)]
        total += weight_of_types * types
        backoffs[g] = (total - given) / total if total > 0 else 1.0
        for c in range(first[g], first[g + 1]):
            if kept[c]:
                n = counts[c]
                own = (n - discounts[min(n, last)]) / total if total > 0 else 0.0
                probs[c] = own + backoffs[g] * probs[suffix[c]]


@lazy_jit(INTS, BYTES, INTS, INTS, int64, int64, DOUBLES, DOUBLES, DOUBLES)
def estimate_backoff(
    counts: Any, kept: Any, first: Any, suffix: Any, low: int, high: int, ratios: Any, probs: Any, backoffs: Any
) -> None:
    """p(w | h) = ratio · c(hw) / c(h) where it was seen, else backoff(h) p(w | h'), which makes the sum one.

    ``ratios[c]`` is the ratio of count c, the last one the ratio of all larger counts. If no word is left to take
    the discounted mass, the words that were seen keep it. Katz (1987).
    """
    last = len(ratios) - 1
    for g in range(low, high):
        if first[g] == first[g + 1]:
            backoffs[g] = 1.0
            continue
        total = 0.0
        given = 0.0
        below = 0.0
        for c in range(first[g], first[g + 1]):
            total += counts[c]
        for c in range(first[g], first[g + 1]):
            if kept[c]:
                probs[c] = ratios[min(counts[c], last)] * counts[c] / total if total > 0 else 0.0
                given += probs[c]
                below += probs[suffix[c]]
        left = max(1.0 - given, 0.0)
        room = 1.0 - below
        if room > 1e-9:
            backoffs[g] = left / room
        else:
            backoffs[g] = 0.0
            for c in range(first[g], first[g + 1]):
                if kept[c]:
                    probs[c] /= given


@lazy_jit(INTS, BYTES, INTS, int64, int64, DOUBLES, float64, float64, float64, DOUBLES, DOUBLES)
def estimate_floored(
    counts: Any, kept: Any, first: Any, low: int, high: int,
    stars: Any, more: float, nothing: float, v: float, probs: Any, floors: Any,
) -> None:  # fmt: skip
    """p(w | h) = c*(hw) / Σ c*, where ``stars[c]`` is c* of count c and ``nothing`` that of count 0, of v words.

    Counts c beyond the table have c* = c + more. ``floors[h]`` is p of each word that is not kept after h, 1 where
    there are no words after h.
    """
    last = len(stars) - 1
    for g in range(low, high):
        if first[g] == first[g + 1]:
            floors[g] = 1.0
            continue
        total = 0.0
        seen = 0
        for c in range(first[g], first[g + 1]):
            n = counts[c]
            if kept[c] and n > 0:
                probs[c] = stars[n] if n <= last else n + more
                total += probs[c]
                seen += 1
        total += (v - seen) * nothing
        floors[g] = nothing / total if total > 0 else 0.0
        for c in range(first[g], first[g + 1]):
            if kept[c]:
                probs[c] = probs[c] / total if counts[c] > 0 else floors[g]


@lazy_jit(INTS, int64, int64, LONGS)
def counts_of_counts(counts: Any, low: int, high: int, found: Any) -> None:
    """``found[c]`` is how many of the nodes low … high - 1 have count c; greater counts are not looked at."""
    most = len(found)
    for g in range(low, high):
        if counts[g] < most:
            found[counts[g]] += 1


@lazy_jit(BYTES, INTS, INTS, INTS, LONGS, INTS)
def compact(kept: Any, words: Any, first: Any, suffix: Any, bases: Any, places: Any) -> None:
    """Move the nodes that are kept together, in place; ``places[g]`` is where node g went, -1 if it is gone.

    The parent and the suffix of a node that is kept must be kept.
    """
    order = len(bases) - 2
    contexts = bases[order]
    n = 0
    for g in range(len(words)):
        places[g] = -1
        if kept[g]:
            places[g] = n
            n += 1
    for g in range(len(words)):
        if kept[g]:
            words[places[g]] = words[g]
            suffix[places[g]] = places[suffix[g]]
    children = 1  # nodes are in order, so a node's children begin where those of the one before it end
    old = first.copy()
    for g in range(contexts):
        if kept[g]:
            first[places[g]] = children
            for c in range(old[g], old[g + 1]):
                children += kept[c]
            first[places[g] + 1] = children
    total = np.zeros(order + 2, np.int64)
    for k in range(order + 1):
        total[k + 1] = total[k]
        for g in range(bases[k], bases[k + 1]):
            total[k + 1] += kept[g]
    bases[:] = total


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
        given = 0.0
        below = 0.0
        for c in range(first[g], first[g + 1]):
            given += np.exp(np.float64(log_probs[c]))
            below += np.exp(np.float64(log_probs[suffix[c]]))
        left = max(1.0 - given, 0.0)
        for c in range(first[g], first[g + 1]):
            log_p = np.float64(log_probs[c])
            log_q = np.float64(log_probs[suffix[c]])
            p = np.exp(log_p)
            q = np.exp(log_q)
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
        given = 0.0
        below = 0.0
        words = 0
        lost = 0
        for c in range(first[g], first[g + 1]):
            if kept[c]:
                given += np.exp(np.float64(log_probs[c]))
                below += np.exp(np.float64(log_probs[suffix[c]]))
                words += 1
            else:
                lost += 1
        if lost:
            backoffs[g] = np.log(max(1.0 - given, 1e-30) / (1.0 - below)) if words else 0.0
