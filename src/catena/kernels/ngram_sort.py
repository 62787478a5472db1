"""All n-grams of a text, sorted and counted, as one trie in breadth-first order.

Node 0 is the empty n-gram, nodes ``1 … v`` are the words, then come all bigrams, trigrams and so on, those of one
length sorted. The children of node ``g`` are ``first[g] … first[g + 1] - 1``: the n-grams one word longer.
``suffix[g]`` is the n-gram without its first word. ``bases[k]`` is the first node of length ``k``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.array_types import BYTES, INTS, LONGS
from catena.kernels.jit import lazy_jit


@lazy_jit(INTS, int64, int64, int64)
def sorted_positions(tokens: Any, n: int, order: int, v: int) -> Any:
    """Positions ``0 … n - 1`` sorted by the ``order`` tokens that begin there. Radix sort, last token first.

    ``tokens`` has ``order`` more entries after ``n``. Time O(order · (n + v)).
    """
    now, after = np.arange(n).astype(np.int32), np.empty(n, np.int32)
    free = np.empty(v + 1, np.int64)
    for d in range(order - 1, -1, -1):
        free[:] = 0
        for i in range(n):
            free[tokens[i + d] + 1] += 1
        for w in range(v):
            free[w + 1] += free[w]
        for j in range(n):
            p = now[j]
            word = tokens[p + d]
            after[free[word]] = p
            free[word] += 1
        now, after = after, now
    return now


@lazy_jit(INTS, INTS, int64, int64, BYTES, BYTES, LONGS)
def common_prefixes(tokens: Any, positions: Any, order: int, end: int, shared: Any, depth: Any, sizes: Any) -> None:
    """What each position has in common with the one before it, in tokens, and how far its sentence reaches.

    ``sizes[k]`` is set to the number of different n-grams of length ``k``.
    """
    before, before_depth = 0, 0
    for j in range(len(positions)):
        p = positions[j]
        deep = 1
        while deep < order and tokens[p + deep - 1] != end:
            deep += 1
        least = min(deep, before_depth)
        same = 0
        while same < least and tokens[p + same] == tokens[before + same]:
            same += 1
        for k in range(same + 1, deep + 1):
            sizes[k] += 1
        shared[j], depth[j] = same, deep
        before, before_depth = p, deep


@lazy_jit(INTS, INTS, BYTES, BYTES, int64, LONGS, INTS, INTS, INTS, INTS)
def fill_trie(
    tokens: Any, positions: Any, shared: Any, depth: Any, order: int, bases: Any,
    words: Any, counts: Any, first: Any, suffix: Any,
) -> None:  # fmt: skip
    """Fill the arrays of the trie, which are all zeros."""
    v, inner = bases[2] - 1, order - 2
    nodes = np.full(max(inner, 0) * len(tokens), -1, np.int32)  # the node of length k + 2 that begins at a position
    free, here = bases.copy(), np.zeros(order + 1, np.int64)
    for w in range(v):
        words[1 + w] = w
    first[0], first[1] = 1, 1 + v
    for j in range(len(positions)):
        p = positions[j]
        for k in range(shared[j] + 1, depth[j] + 1):
            if k == 1:
                here[1] = 1 + tokens[p]
                continue
            g = free[k]
            free[k] += 1
            words[g], suffix[g] = tokens[p + k - 1], p
            here[k] = g
            first[here[k - 1] + 1] = g + 1
        for k in range(1, depth[j] + 1):
            counts[here[k]] += 1
        for k in range(2, min(depth[j] + 1, order)):
            nodes[p * inner + k - 2] = here[k]
    for g in range(1, len(first) - 1):
        first[g + 1] = max(first[g + 1], first[g])
    for k in range(2, order + 1):  # so far, the suffix was a position of the n-gram itself
        for g in range(bases[k], bases[k + 1]):
            p = suffix[g] + 1
            suffix[g] = 1 + tokens[p] if k == 2 else nodes[p * inner + k - 3]


@lazy_jit(INTS, INTS, LONGS, INTS, int64, INTS)
def adjusted_counts(counts: Any, first: Any, bases: Any, suffix: Any, begin: int, found: Any) -> None:
    """How many different words stand before each n-gram: the counts of Kneser & Ney (1995).

    Those of the greatest length, and those that begin a sentence, before which nothing stands, keep their counts.
    """
    order = len(bases) - 2
    for g in range(bases[2], bases[order + 1]):
        found[suffix[g]] += 1
    low, high = 1 + begin, 2 + begin
    for _ in range(2, order + 1):
        low, high = first[low], first[high]
        found[low:high] = counts[low:high]
    found[bases[order] : bases[order + 1]] = counts[bases[order] : bases[order + 1]]


@njit(nogil=True, inline="always")
def child(words: Any, first: Any, g: Any, word: Any) -> Any:
    """The child of a node by its word, or -1."""
    low, high = first[g], first[g + 1]
    while low < high:
        middle = (low + high) // 2
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < first[g + 1] and words[low] == word else -1


@lazy_jit(INTS, INTS, LONGS, INTS)
def link_suffixes(words: Any, first: Any, bases: Any, suffix: Any) -> int:
    """Find all suffixes from the rest of the trie. Returns the first node that has none, or -1."""
    for g in range(1, bases[len(bases) - 2]):
        for c in range(first[g], first[g + 1]):
            suffix[c] = child(words, first, suffix[g], words[c])
            if suffix[c] < 0:
                return c
    return -1


@lazy_jit(INTS, INTS, LONGS, int64, INTS)
def spell_ngrams(words: Any, first: Any, bases: Any, k: int, rows: Any) -> None:
    """All n-grams of length k, word by word. Time O(k · their number): ancestors only ever move on."""
    above = bases[: k + 1].copy()
    for g in range(bases[k], bases[k + 1]):
        at, row = g, (g - bases[k]) * k
        rows[row + k - 1] = words[g]
        for j in range(k - 1, 0, -1):
            while first[above[j] + 1] <= at:
                above[j] += 1
            at = above[j]
            rows[row + j - 1] = words[at]


@lazy_jit(INTS, INTS, INTS, int64, LONGS)
def find_nodes(words: Any, first: Any, rows: Any, k: int, found: Any) -> int:
    """The node of the first ``k - 1`` words of each row of ``k``, or -1. Returns how many are not there."""
    missing = 0
    for row in range(len(found)):
        g = 0
        for j in range(k - 1):
            g = child(words, first, g, rows[row * k + j])
            if g < 0:
                missing += 1
                break
        found[row] = g
    return missing
