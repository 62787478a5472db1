"""Questions to a packed back-off model (see :mod:`catena.kernels.ngram_pack`): one word, many sentences, all words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit

from catena.kernels.array_types import FLOATS, INTS, LONGS
from catena.kernels.jit import lazy_jit
from catena.kernels.ngram_pack import hash_slot
from catena.kernels.ngram_prefetch import prefetch

_LANES = 32
"""Sentences that are walked side by side: while one waits for memory, the others go on."""


@njit(nogil=True, inline="always")
def _slot(histories: Any, slots: Any, s: Any, word: Any) -> Any:
    """The slot of a word after a history, or -1."""
    begin, size = np.int64(histories[4 * s]), np.int64(histories[4 * s + 1])
    if s == 0:
        return word
    if size < 0:
        return begin if -1 - size == word else -1
    i = hash_slot(word, size)
    for _ in range(size):
        found = slots[3 * (begin + i)]
        if found == word:
            return begin + i
        if found < 0 or found > word:  # words were put in by their ids: on the way to one stand only lower ones
            return -1
        i = i + 1 if i + 1 < size else 0
    return -1


@njit(nogil=True, inline="always")
def step(histories: Any, histories_f: Any, slots: Any, slots_f: Any, s: Any, word: Any, flat: Any) -> Any:
    """The state after a word, and the log-probability of the word."""
    passed, failed = np.float32(0.0), False
    i = _slot(histories, slots, s, word)
    while i < 0:
        if not (flat and failed):
            passed += histories_f[4 * s + 2]
        failed = True
        s = np.int64(histories[4 * s + 3])
        i = _slot(histories, slots, s, word)
    last = slots_f[3 * i + 2]
    return np.int64(slots[3 * i + 1]), passed if flat and failed and last > -np.inf else passed + last


@lazy_jit(INTS, FLOATS, INTS, FLOATS, LONGS, LONGS, int64, LONGS, FLOATS)
def step_states(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, states: Any, words: Any, flat: int,
    after: Any, log_probs: Any,
) -> None:  # fmt: skip
    """One word for each state: the state after it, and its log-probability."""
    for row in range(len(states)):
        after[row], log_probs[row] = step(
            histories, histories_f, slots, slots_f, np.int64(states[row]), np.int64(words[row]), flat
        )


@lazy_jit(INTS, FLOATS, INTS, FLOATS, INTS, LONGS, int64, int64, FLOATS)
def walked_plainly(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, ids: Any, ends: Any, begin: int, flat: int, out: Any
) -> None:
    """``out[i]`` is log p(ids[i] | the ids before it in its sentence); sentence j is ids[ends[j - 1] : ends[j]]."""
    low = 0
    for j in range(len(ends)):
        s = begin
        for i in range(low, ends[j]):
            s, out[i] = step(histories, histories_f, slots, slots_f, s, np.int64(ids[i]), flat)
        low = ends[j]


U = np.uint64  # an index of this type is never taken for one from the end, and saves the question


@lazy_jit(INTS, FLOATS, INTS, FLOATS, INTS, LONGS, int64, FLOATS)
def score_sentences(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, ids: Any, ends: Any, begin: int, out: Any
) -> None:
    """As :func:`walked_plainly`, for models that are not flat, in half the time.

    Many sentences take turns, and none waits for memory: each says what it will read, and reads it a turn later.
    Whether a word is found can hardly be guessed, so both ways are computed and one of them kept.
    """
    at, stop, state = np.zeros(_LANES, np.uint64), np.zeros(_LANES, np.uint64), np.zeros(_LANES, np.uint64)
    word, found, passed = np.zeros(_LANES, np.int64), np.zeros(_LANES, np.uint64), np.zeros(_LANES, np.float32)
    lanes, sentence, n = U(0), 0, len(ends)
    while lanes < U(_LANES) and sentence < n:
        low = ends[sentence - 1] if sentence else 0
        if ends[sentence] > low:
            at[lanes], stop[lanes], state[lanes], word[lanes] = low, ends[sentence], begin, ids[low]
            lanes += U(1)
        sentence += 1
    while lanes > U(0):
        for k in range(lanes):
            s, w = U(4) * state[k], word[k]
            size = np.int64(histories[s + U(1)])
            if size < 0 and -1 - size != w:  # a single word, and not this one: its slot need not be read
                passed[k] += histories_f[s + U(2)]
                state[k] = U(histories[s + U(3)])
                s = U(4) * state[k]
                size = np.int64(histories[s + U(1)])
            i = U(histories[s]) + (U(hash_slot(w, size if size > 0 else 0)) if s else U(w))
            found[k] = i
            prefetch(slots, U(3) * i)
            prefetch(slots, U(3) * i + U(5))  # one slot in eight lies on two lines, and the next may be looked at too
        a = U(0)
        while a < lanes:
            i, s, w = found[a], U(4) * state[a], word[a]
            there = np.int64(np.uint32(slots[U(3) * i]))  # a free slot counts as higher than every word
            if there < w:
                first, size = U(histories[s]), np.int64(histories[s + U(1)])
                behind = first + U(size)
                for _ in range(size - 1):
                    i = i + U(1) if i + U(1) < behind else first
                    there = np.int64(np.uint32(slots[U(3) * i]))
                    if there >= w:
                        break
            hit = there == w
            out[at[a]] = passed[a] + slots_f[U(3) * i + U(2)]  # is written again, unless this was the word
            after, shorter = slots[U(3) * i + U(1)], histories[s + U(3)]
            less = passed[a] + histories_f[s + U(2)]
            state[a] = U(after if hit else shorter)
            passed[a] = np.float32(0.0) if hit else less
            prefetch(histories, U(4) * state[a])
            at[a] += U(hit)
            if at[a] < stop[a]:
                word[a] = ids[at[a]]
                a += U(1)
                continue
            while sentence < n and ends[sentence] == ends[sentence - 1]:
                sentence += 1
            if sentence < n:
                low = ends[sentence - 1]
                at[a], stop[a], state[a], word[a] = low, ends[sentence], begin, ids[low]
                sentence += 1
                a += U(1)
            else:  # the last lane moves here and is looked at next
                lanes -= U(1)
                at[a], stop[a], state[a] = at[lanes], stop[lanes], state[lanes]
                word[a], found[a], passed[a] = word[lanes], found[lanes], passed[lanes]


@lazy_jit(INTS, FLOATS, INTS, FLOATS, FLOATS, LONGS, int64, FLOATS)
def spread(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, unigrams: Any, states: Any, flat: int, out: Any
) -> None:
    """``out[row · v + w]`` is log p(w | state): shorter histories first, overwritten by what longer ones know."""
    v = len(unigrams)
    chain, passed = np.empty(256, np.int64), np.empty(256, np.float32)
    for row in range(len(states)):
        into = out[row * v : (row + 1) * v]
        depth, s, total = 0, states[row], np.float32(0.0)
        while s != 0:
            chain[depth], passed[depth] = s, total
            if not (flat and depth):
                total += histories_f[4 * s + 2]
            s = histories[4 * s + 3]
            depth += 1
        if flat and depth:
            for w in range(v):
                into[w] = total if unigrams[w] > -np.inf else -np.inf
            depth = 1
        else:
            for w in range(v):
                into[w] = total + unigrams[w]
        for d in range(depth - 1, -1, -1):
            s = chain[d]
            begin, size = histories[4 * s], histories[4 * s + 1]
            for i in range(begin, begin + (size if size >= 0 else 1)):
                if slots[3 * i] >= 0:
                    into[U(slots[3 * i])] = passed[d] + slots_f[3 * i + 2]
