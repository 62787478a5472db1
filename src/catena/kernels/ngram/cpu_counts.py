"""All n-grams of a text, sorted and counted, as one trie in breadth-first order.

Node 0 is the empty n-gram, nodes ``1 … v`` are the words, then come all bigrams, trigrams and so on, those of one
length sorted. The children of node ``g`` are ``first[g] … first[g + 1] - 1``: the n-grams one word longer.
``suffix[g]`` is the n-gram without its first word. ``bases[k]`` is the first node of length ``k``.

More n-grams than memory holds are counted in sorted runs, which are merged in pairs; the trie is built from the last
one. A row of a run is an n-gram of the greatest length, padded with 0 after the end of its sentence, and its count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.common.jit import BYTES, INTS, LONGS, lazy_jit


@lazy_jit(INTS, int64, int64, int64)
def sorted_positions(tokens: Any, n: int, order: int, v: int) -> Any:
    """Positions ``0 … n - 1`` sorted by the ``order`` tokens that begin there. Radix sort, last token first.

    ``tokens`` has ``order`` more entries after ``n``. Time O(order · (n + v)).
    """
    now = np.arange(n).astype(np.int32)
    after = np.empty(n, np.int32)
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
    before = 0
    before_depth = 0
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
        shared[j] = same
        depth[j] = deep
        before = p
        before_depth = deep


@lazy_jit(INTS, INTS, BYTES, BYTES, int64, LONGS, INTS, INTS, INTS, INTS)
def fill_trie(
    tokens: Any, positions: Any, shared: Any, depth: Any, order: int, bases: Any,
    words: Any, counts: Any, first: Any, suffix: Any,
) -> None:  # fmt: skip
    """Fill the arrays of the trie, which are all zeros."""
    v = bases[2] - 1
    inner = order - 2
    nodes = np.full(max(inner, 0) * len(tokens), -1, np.int32)  # the node of length k + 2 that begins at a position
    free = bases.copy()
    here = np.zeros(order + 1, np.int64)
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
            words[g] = tokens[p + k - 1]
            suffix[g] = p
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
    low = 1 + begin
    high = 2 + begin
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
        at = g
        row = (g - bases[k]) * k
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


@lazy_jit(INTS, INTS, int64, int64, INTS)
def distinct_rows(tokens: Any, positions: Any, order: int, end: int, rows: Any) -> int:
    """The different n-grams at sorted positions, with their counts. Returns how many there are."""
    width = order + 1
    n = 0
    for p in positions:
        row = n * width
        same = n > 0
        ended = False
        for d in range(order):
            rows[row + d] = 0 if ended else tokens[p + d]
            ended = ended or tokens[p + d] == end
            same = same and rows[row + d] == rows[row - width + d]
        if same:
            rows[row - 1] += 1
        else:
            rows[row + order] = 1
            n += 1
    return n


@lazy_jit(INTS, INTS, LONGS, int64, INTS)
def merge_rows(a: Any, b: Any, at: Any, width: int, out: Any) -> None:
    """Merge sorted rows until one side is used up or the output is full; counts of equal rows are added.

    ``at`` is where the loop is, and is left: [row of a, row of b, row of out, rows of a, rows of b, capacity of out].
    """
    i, j, n = at[0], at[1], at[2]
    while i < at[3] and j < at[4] and n < at[5]:
        side = 0
        for d in range(width - 1):
            x = a[i * width + d]
            y = b[j * width + d]
            if x != y:
                side = -1 if x < y else 1
                break
        for d in range(width - 1):
            out[n * width + d] = a[i * width + d] if side <= 0 else b[j * width + d]
        out[n * width + width - 1] = 0
        if side <= 0:
            out[n * width + width - 1] += a[i * width + width - 1]
            i += 1
        if side >= 0:
            out[n * width + width - 1] += b[j * width + width - 1]
            j += 1
        n += 1
    at[0], at[1], at[2] = i, j, n


@lazy_jit(INTS, int64, int64, int64, INTS, INTS, INTS, LONGS)
def build_levels(rows: Any, n: int, order: int, end: int, before: Any, pending: Any, nodes: Any, filled: Any) -> None:
    """The nodes of each length that sorted rows make, as (word, count, children).

    Args:
        before: the row before these, -1 in all places at the beginning.
        pending: for each length, the node that is not finished, as nodes are, with word -1 where there is none.
        nodes: buffer of n + 1 finished nodes of each length.
        filled: how many finished nodes of each length there are.
    """
    width = order + 1
    room = n + 1
    for row in range(n):
        base = row * width
        depth = 1
        while depth < order and rows[base + depth - 1] != end:
            depth += 1
        same = 0
        while same < depth and rows[base + same] == before[same]:
            same += 1
        for k in range(same + 1, depth + 1):
            if pending[3 * k] >= 0:
                place = 3 * (k * room + filled[k])
                nodes[place], nodes[place + 1], nodes[place + 2] = (
                    pending[3 * k],
                    pending[3 * k + 1],
                    pending[3 * k + 2],
                )
                filled[k] += 1
            pending[3 * k], pending[3 * k + 1], pending[3 * k + 2] = rows[base + k - 1], 0, 0
            pending[3 * (k - 1) + 2] += 1
        for k in range(1, depth + 1):
            pending[3 * k + 1] += rows[base + order]
        for d in range(order):
            before[d] = rows[base + d]
