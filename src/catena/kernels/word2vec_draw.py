"""What word vectors are learned from: which words of a text are kept, which stand in a window, and what noise is drawn.

Random numbers are those of splitmix64 (Steele et al. 2014): number i of a seed is a mix of ``seed + i * GOLDEN``, so a
block of text with a seed of its own draws the same on any thread. Knows nothing of vectors: ids in, ids out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import boolean, int64, njit, uint32, uint64

from catena.kernels.array_types import BYTES, DOUBLES, INTS, KEYS, LONGS, READ_ONLY_INTS
from catena.kernels.jit import lazy_jit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_H32 = np.uint64(32)
ALWAYS = np.uint64(1 << 32)
"""The threshold of what is surely kept: 32 random bits are below it."""

LINE_END = -1
"""Where a line ends, in the ids of a text."""


@njit(nogil=True, forceinline=True)
def splitmix64(z: Any) -> Any:
    """64 random bits from a counter."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, forceinline=True)
def below(bits: Any, n: Any) -> Any:
    """A number below ``n`` from 64 random bits, of which the high half is used."""
    return np.int64(((bits >> _H32) * np.uint64(n)) >> _H32)


@lazy_jit(READ_ONLY_INTS, LONGS, LONGS, LONGS, KEYS, uint64, INTS, INTS, INTS)
def subsample_words(
    ids: Any, lows: Any, highs: Any, first_lines: Any, keep: Any, seed: Any, words: Any, lines: Any, spans: Any
) -> int:
    """Write the words of some pieces of a text that subsampling keeps; return how many.

    Word ``w`` is kept when 32 random bits are below ``keep[w]``.

    Args:
        lows, highs: piece ``p`` is ``ids[lows[p] : highs[p]]``.
        first_lines: the number of the line that each piece begins in.
        lines: gets the number of the line of each word.
        spans: gets a number that is the same for words of one line in one piece, and for no others.
    """
    n, span, state = 0, 0, seed
    for p in range(len(lows)):
        line = first_lines[p]
        span += 1
        for i in range(lows[p], highs[p]):
            word = ids[i]
            if word < 0:
                line += 1
                span += 1
                continue
            state += GOLDEN
            if (splitmix64(state) >> _H32) < keep[word]:
                words[n], lines[n], spans[n] = word, line, span
                n += 1
    return n


@lazy_jit(INTS, INTS, int64, int64, boolean, int64, uint64, LONGS, INTS)
def windows(
    words: Any, spans: Any, n: int, window: int, dynamic: bool, positions: int, seed: Any, first: Any, context: Any
) -> None:
    """The neighbors of each word in its span: those of word ``i`` are ``context[first[i] : first[i + 1]]``.

    Args:
        window: the farthest neighbor, w.
        dynamic: the reach of each word is drawn from 1 … w, all alike (Mikolov et al. 2013, section 3.1 of the first).
        positions: if not 0, so many different positions are drawn from -w … -1, 1 … w, and those in the span are taken.
    """
    state, c = seed, 0
    chosen = np.empty(2 * window, np.int64)
    for i in range(n):
        first[i] = c
        state += GOLDEN
        bits = splitmix64(state)
        if positions > 0:
            for p in range(2 * window):
                chosen[p] = p - window if p < window else p - window + 1
            for p in range(positions):  # the first steps of a shuffle
                state += GOLDEN
                q = p + below(splitmix64(state), 2 * window - p)
                chosen[p], chosen[q] = chosen[q], chosen[p]
                at = i + chosen[p]
                if 0 <= at < n and spans[at] == spans[i]:
                    context[c] = words[at]
                    c += 1
            continue
        reach = 1 + below(bits, window) if dynamic else window
        for at in range(max(0, i - reach), min(n, i + reach + 1)):
            if at != i and spans[at] == spans[i]:
                context[c] = words[at]
                c += 1
    first[n] = c


@lazy_jit(INTS, LONGS, int64, INTS)
def pair_targets(words: Any, first: Any, n: int, targets: Any) -> None:
    """The word that each neighbor has to predict, neighbor by neighbor."""
    for i in range(n):
        for p in range(first[i], first[i + 1]):
            targets[p] = words[i]


@lazy_jit(LONGS, INTS, int64, LONGS, INTS, LONGS, INTS)
def expand_subwords(first: Any, bag: Any, n: int, part_first: Any, parts: Any, new_first: Any, new_bag: Any) -> None:
    """Replace each word of each bag by its parts: itself and the buckets of its character n-grams."""
    c = 0
    for i in range(n):
        new_first[i] = c
        for p in range(first[i], first[i + 1]):
            word = bag[p]
            for q in range(part_first[word], part_first[word + 1]):
                new_bag[c] = parts[q]
                c += 1
    new_first[n] = c


@lazy_jit(LONGS, INTS, INTS, int64, int64, LONGS, INTS)
def with_documents(first: Any, bag: Any, lines: Any, n: int, base: int, new_first: Any, new_bag: Any) -> None:
    """Put the row of its line in front of each bag."""
    c = 0
    for i in range(n):
        new_first[i] = c
        new_bag[c] = base + lines[i]
        c += 1
        for p in range(first[i], first[i + 1]):
            new_bag[c] = bag[p]
            c += 1
    new_first[n] = c


@lazy_jit(INTS, int64, int64, KEYS, boolean, uint64, INTS)
def noise(targets: Any, n: int, k: int, alias: Any, but_target: bool, seed: Any, drawn: Any) -> None:
    """Draw ``k`` words for each target from an alias table (Walker 1977): O(1) for each, whatever the vocabulary.

    ``alias[c]`` holds in its high half the threshold below which column ``c`` is drawn, in its low half the other word.
    With ``but_target`` the target itself is drawn anew; there must then be two words that can be drawn.
    """
    state, v = seed, np.uint64(len(alias))
    for i in range(n):
        target = np.int64(targets[i])
        for m in range(i * k, i * k + k):
            word = target
            for _ in range(1000):  # so that it ends even where the noise is nearly all one word
                state += GOLDEN
                bits = splitmix64(state)
                column = np.int64(((bits >> _H32) * v) >> _H32)
                cell = alias[column]
                other = np.int64(cell & _LOW)
                # An if would be mispredicted half of the time.
                word = other + (column - other) * np.int64((bits & _LOW) < (cell >> _H32))
                if word != target or not but_target:
                    break
            if word == target and but_target:
                word = target - 1 if target > 0 else target + 1
            drawn[m] = word


@lazy_jit(DOUBLES, KEYS)
def fill_alias(weights: Any, table: Any) -> None:
    """The alias table of a distribution in proportion to weights, by Vose's method (1991): O(v)."""
    v, total = len(weights), 0.0
    for i in range(v):
        total += weights[i]
    share = np.empty(v, np.float64)
    stack = np.empty(v, np.int64)  # small shares from the left, large ones from the right
    small, large = 0, v
    for i in range(v):
        share[i] = weights[i] / total * v
        if share[i] < 1.0:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < v:
        small -= 1
        i, j = stack[small], stack[large]
        table[i] = (np.uint64(min(share[i] * 4294967296.0, 4294967295.0)) << _H32) | np.uint64(j)
        share[j] -= 1.0 - share[i]
        if share[j] < 1.0:
            large += 1
            stack[small] = j
            small += 1
    for p in range(small):  # what is left is 1 up to rounding
        table[stack[p]] = (_LOW << _H32) | np.uint64(stack[p])
    for p in range(large, v):
        table[stack[p]] = (_LOW << _H32) | np.uint64(stack[p])


@lazy_jit(LONGS, LONGS, INTS, BYTES)
def huffman_paths(counts: Any, first: Any, nodes: Any, codes: Any) -> int:
    """Huffman's tree of words by their counts, which must fall: the inner nodes from the root to each word, and the
    turn taken at each (0 to the lighter side). Returns the number of steps of all paths; with empty ``nodes`` it only
    counts them and writes ``first``.

    Two queues, one of words and one of joined nodes, are both sorted, so O(v) (van Leeuwen 1976).
    """
    v = len(counts)
    weight = np.empty(2 * v, np.int64)
    parent = np.zeros(2 * v, np.int64)
    turn = np.zeros(2 * v, np.uint8)
    for i in range(v):
        weight[i] = counts[v - 1 - i]  # rising
    leaf, joined = 0, v
    for new in range(v, 2 * v - 1):
        weight[new] = 0
        for side in range(2):
            if leaf < v and (joined >= new or weight[leaf] <= weight[joined]):
                node, leaf = leaf, leaf + 1
            else:
                node, joined = joined, joined + 1
            weight[new] += weight[node]
            parent[node] = new
            turn[node] = side
    total, root = 0, 2 * v - 2
    for word in range(v):
        first[word] = total
        node = v - 1 - word
        while node != root:
            node = parent[node]
            total += 1
        if len(nodes) > 0:
            at, node = total, v - 1 - word
            while node != root:
                at -= 1
                nodes[at] = parent[node] - v
                codes[at] = turn[node]
                node = parent[node]
    first[v] = total
    return total


@njit(nogil=True, forceinline=True)
def _add_gram(data: Any, low: int, high: int, bucket: Any) -> Any:
    h = np.uint32(2166136261)
    for i in range(low, high):
        # fastText adds each byte as a signed number; the files of others depend on it.
        h = np.uint32((h ^ np.uint32(np.int32(np.int8(data[i])))) * np.uint32(16777619))
    return np.int64(h % np.uint32(bucket))


@lazy_jit(BYTES, LONGS, int64, int64, int64, int64, LONGS, INTS)
def ngram_parts(
    names: Any, name_ends: Any, shortest: int, longest: int, bucket: int, base: int, first: Any, parts: Any
) -> int:
    """The rows of the character n-grams of words written as ``<word>``, hashed into buckets (Bojanowski et al. 2017).

    Word ``w`` has the rows ``parts[first[w] : first[w + 1]]``: ``base + bucket`` for each n-gram; row ``w`` itself
    comes first if ``base`` is not 0. Characters are those of UTF-8. Returns the number of rows of all words; with
    empty ``parts`` it only counts them and writes ``first``.
    """
    n, start = 0, 0
    for w in range(len(name_ends)):
        first[w] = n
        size = name_ends[w] - start + 2
        data = np.empty(size, np.uint8)
        data[0], data[size - 1] = 60, 62
        data[1 : size - 1] = names[start : name_ends[w]]
        start = name_ends[w]
        if base > 0:
            if len(parts) > 0:
                parts[n] = w
            n += 1
        for i in range(size):
            if (data[i] & 0xC0) == 0x80:
                continue
            j, length = i, 0
            while j < size and length < longest:
                j += 1
                while j < size and (data[j] & 0xC0) == 0x80:
                    j += 1
                length += 1
                if length >= shortest and not (length == 1 and (i == 0 or j == size)):
                    if len(parts) > 0:
                        parts[n] = base + _add_gram(data, i, j, uint32(bucket))
                    n += 1
    first[len(name_ends)] = n
    return n
