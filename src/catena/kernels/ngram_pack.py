"""The trie of a back-off model laid out for questions: histories, and beside each history the words after it.

A history that has words or a back-off weight is a **state**; state 0 is the empty history. Four numbers describe
a state: where its slots begin, how many there are (``-1 - w`` for the single word w), its log back-off weight, and
the state of the history without its first word. A slot is three numbers: a word, the state after it, and its
log-probability. The slots of a state are a separate hash table, except for state 0, where slot w belongs to word w.
Words are put into it by their ids, so that a search may end at the first word with a higher one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from catena.kernels.array_types import FLOATS, INTS
from catena.kernels.jit import lazy_jit

_DENSE = 4
"""Up to this number of words are stored without gaps: searching all of them takes one or two lines of the cache."""


@njit(nogil=True, inline="always")
def room(n: Any) -> Any:
    """The slots that n words take."""
    return n if n <= _DENSE else n + n // 2


@njit(nogil=True, inline="always")
def hash_slot(word: Any, size: Any) -> Any:
    """Where a word would stand among ``size`` slots."""
    return (((word * 0x9E3779B1) & 0xFFFFFFFF) * size) >> 32


@lazy_jit(INTS, INTS, FLOATS, INTS)
def number_states(first: Any, suffix: Any, backoffs: Any, states: Any) -> Any:
    """Set the state that each node leads to: its own, or that of its longest suffix which is a state.

    Returns the number of states and of slots.
    """
    contexts = len(first) - 1
    n, slots = 1, first[1] - first[0]
    states[0] = 0
    for g in range(1, len(states)):
        children = first[g + 1] - first[g] if g < contexts else 0
        if children or (g < contexts and backoffs[g] != 0.0):
            states[g] = n
            n += 1
            slots += room(children)
        else:
            states[g] = states[suffix[g]]
    return n, slots


@lazy_jit(INTS, INTS, INTS, FLOATS, FLOATS, INTS, INTS, FLOATS, INTS, FLOATS)
def pack_trie(
    words: Any, first: Any, suffix: Any, log_probs: Any, backoffs: Any, states: Any,
    histories: Any, histories_f: Any, slots: Any, slots_f: Any,
) -> None:  # fmt: skip
    """Fill histories and slots, each given twice: as integers and as floats over the same memory."""
    at, n = 0, 0
    for g in range(len(first) - 1):
        if n > 0 and states[g] != n:
            continue
        low, high = first[g], first[g + 1]
        children = high - low
        size = children if g == 0 else room(children)
        histories[4 * n] = at if size else 0  # slot 0 is padding: it is read, but never matches
        histories[4 * n + 1] = -1 - words[low] if children == 1 and n > 0 else size
        histories_f[4 * n + 2], histories[4 * n + 3] = backoffs[g], states[suffix[g]] if g else 0
        n += 1
        for s in range(at, at + size):
            slots[3 * s] = -1
        for c in range(low, high):
            i = hash_slot(words[c], size) if g else words[c]
            while slots[3 * (at + i)] >= 0:
                i = i + 1 if i + 1 < size else 0
            place = at + i
            slots[3 * place], slots[3 * place + 1], slots_f[3 * place + 2] = words[c], states[c], log_probs[c]
        at += size


@lazy_jit(INTS, FLOATS, INTS, FLOATS, INTS, INTS, FLOATS, FLOATS)
def unpack_trie(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, words: Any, first: Any, log_probs: Any, backoffs: Any
) -> None:
    """The sorted trie without the suffixes. States were numbered in the order of their nodes."""
    states, places = np.full(len(words), -1, np.int64), np.empty(len(words), np.int64)
    states[0], first[0] = 0, 1
    n, expected = 1, 1
    for g in range(len(words)):
        s, low = states[g], n
        if s >= 0:
            backoffs[g] = histories_f[4 * s + 2]
            begin, size = histories[4 * s], histories[4 * s + 1]
            for i in range(begin, begin + (size if size >= 0 else 1)):
                if slots[3 * i] >= 0:
                    words[n], places[n] = slots[3 * i], i
                    n += 1
            if size > 1 and s > 0:
                order = np.argsort(words[low:n])
                words[low:n] = words[low:n][order]
                places[low:n] = places[low:n][order]
            for c in range(low, n):
                log_probs[c] = slots_f[3 * places[c] + 2]
                if slots[3 * places[c] + 1] == expected:
                    states[c] = expected
                    expected += 1
        first[g + 1] = n
