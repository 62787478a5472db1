"""Probabilities from counts, one pass over a level of the trie (see :mod:`catena.kernels.ngram_sort`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64

from catena.kernels.array_types import BYTES, DOUBLES, INTS, LONGS
from catena.kernels.jit import lazy_jit


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
        total, given, types = 0.0, 0.0, 0
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
        total, given, below = 0.0, 0.0, 0.0
        for c in range(first[g], first[g + 1]):
            total += counts[c]
        for c in range(first[g], first[g + 1]):
            if kept[c]:
                probs[c] = ratios[min(counts[c], last)] * counts[c] / total if total > 0 else 0.0
                given += probs[c]
                below += probs[suffix[c]]
        left, room = max(1.0 - given, 0.0), 1.0 - below
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
        total, seen = 0.0, 0
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
            words[places[g]], suffix[places[g]] = words[g], places[suffix[g]]
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
