"""Queries of a packed back-off model: one word, many sentences, all words.

The trie is packed as histories, each with the words after it. A history that has words or a back-off weight is a
**state**; state 0 is the empty history. Four numbers describe a state: the index of its first slot, the number of its
slots (``-1 - w`` for the single word w), its log back-off weight, and the state of the history without its first word.
A slot is three numbers: a word, the state after it, and its log-probability. The slots of a state are a hash table of
their own, except for state 0, where slot w belongs to word w. Words are inserted by their ids, so that a search may end
at the first word with a higher one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, int64, njit, types, uint8
from numba.extending import intrinsic

from catena.kernels.common.jit import FLOATS, INTS, LONGS, jit_function, jit_inline, lazy_jit
from catena.kernels.ngram.cpu_text import KINDS, LETTER, MAYBE, blank_width, find_slot, hash_bytes, word_end

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
    n = 1
    slots = first[1] - first[0]
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
    at = 0
    n = 0
    for g in range(len(first) - 1):
        if n > 0 and states[g] != n:
            continue
        low, high = first[g], first[g + 1]
        children = high - low
        size = children if g == 0 else room(children)
        histories[4 * n] = at if size else 0  # slot 0 is padding: it is read, but never matches
        histories[4 * n + 1] = -1 - words[low] if children == 1 and n > 0 else size
        histories_f[4 * n + 2] = backoffs[g]
        histories[4 * n + 3] = states[suffix[g]] if g else 0
        n += 1
        for s in range(at, at + size):
            slots[3 * s] = -1
        for c in range(low, high):
            i = hash_slot(words[c], size) if g else words[c]
            while slots[3 * (at + i)] >= 0:
                i = i + 1 if i + 1 < size else 0
            place = at + i
            slots[3 * place] = words[c]
            slots[3 * place + 1] = states[c]
            slots_f[3 * place + 2] = log_probs[c]
        at += size


@lazy_jit(INTS, FLOATS, INTS, FLOATS, INTS, INTS, FLOATS, FLOATS)
def unpack_trie(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, words: Any, first: Any, log_probs: Any, backoffs: Any
) -> None:
    """The sorted trie without the suffixes. States were numbered in the order of their nodes."""
    states = np.full(len(words), -1, np.int64)
    places = np.empty(len(words), np.int64)
    states[0] = 0
    first[0] = 1
    n = 1
    expected = 1
    for g in range(len(words)):
        s = states[g]
        low = n
        if s >= 0:
            backoffs[g] = histories_f[4 * s + 2]
            begin, size = histories[4 * s], histories[4 * s + 1]
            for i in range(begin, begin + (size if size >= 0 else 1)):
                if slots[3 * i] >= 0:
                    words[n] = slots[3 * i]
                    places[n] = i
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


def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Begin to fetch ``array[index]`` into the cache."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        read = number(0)
        keep = number(3)
        data_cache = number(1)
        builder.call(function, [address, read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen


def _pointer(_: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to numbers of the same type as ``like``."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(types.int64, like), codegen


prefetch: Any = intrinsic(_prefetch)
pointer: Any = intrinsic(_pointer)
_LANES = 32
"""Sentences that are walked side by side: while one waits for memory, the others go on."""


@njit(nogil=True, inline="always")
def _slot(histories: Any, slots: Any, s: Any, word: Any) -> Any:
    """The slot of a word after a history, or -1."""
    begin = np.int64(histories[4 * s])
    size = np.int64(histories[4 * s + 1])
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
    passed = np.float32(0.0)
    failed = False
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


@jit_inline()
def _begin_sentence(
    lane: Any, low: int, high: int, begin: int, ids: Any, at: Any, stop: Any, state: Any, word: Any
) -> None:
    at[lane] = low
    stop[lane] = high
    state[lane] = begin
    word[lane] = ids[low]


@jit_function()
def _take_turns(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, ids: Any, ends: Any, begin: int, out: Any
) -> None:
    at = np.zeros(_LANES, np.uint64)
    stop = np.zeros(_LANES, np.uint64)
    state = np.zeros(_LANES, np.uint64)
    word = np.zeros(_LANES, np.int64)
    found = np.zeros(_LANES, np.uint64)
    passed = np.zeros(_LANES, np.float32)
    lanes = U(0)
    sentence = 0
    n = len(ends)
    while lanes < U(_LANES) and sentence < n:
        low = ends[sentence - 1] if sentence else 0
        if ends[sentence] > low:
            _begin_sentence(lanes, low, ends[sentence], begin, ids, at, stop, state, word)
            lanes += U(1)
        sentence += 1
    while lanes > U(0):
        for k in range(lanes):
            s = U(4) * state[k]
            w = word[k]
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
            i = found[a]
            s = U(4) * state[a]
            w = word[a]
            there = np.int64(np.uint32(slots[U(3) * i]))  # a free slot counts as higher than every word
            if there < w:
                first = U(histories[s])
                size = np.int64(histories[s + U(1)])
                behind = first + U(size)
                for _ in range(size - 1):
                    i = i + U(1) if i + U(1) < behind else first
                    there = np.int64(np.uint32(slots[U(3) * i]))
                    if there >= w:
                        break
            hit = there == w
            out[at[a]] = passed[a] + slots_f[U(3) * i + U(2)]  # is written again, unless this was the word
            after = slots[U(3) * i + U(1)]
            shorter = histories[s + U(3)]
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
                _begin_sentence(a, ends[sentence - 1], ends[sentence], begin, ids, at, stop, state, word)
                sentence += 1
                a += U(1)
            else:  # the last lane moves here and is looked at next
                lanes -= U(1)
                at[a] = at[lanes]
                stop[a] = stop[lanes]
                state[a] = state[lanes]
                word[a] = word[lanes]
                found[a] = found[lanes]
                passed[a] = passed[lanes]


@lazy_jit(INTS, FLOATS, INTS, FLOATS, INTS, LONGS, int64, FLOATS)
def score_sentences(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, ids: Any, ends: Any, begin: int, out: Any
) -> None:
    """As :func:`walked_plainly`, for models that are not flat, in half the time.

    Many sentences take turns, and none waits for memory: each says what it will read, and reads it a turn later.
    Whether a word is found can hardly be guessed, so both ways are computed and one of them kept.
    """
    _take_turns(histories, histories_f, slots, slots_f, ids, ends, begin, out)


_PIECE = 4
"""A sentence is scored in pieces of this number of words, or as many as a history has."""


@jit_function()
def _sum_pieces(histories: Any, histories_f: Any, slots: Any, slots_f: Any, ids: Any, n: int, memory: int) -> float:
    """The sum of the log-probabilities of ``ids[1:n]``, piece by piece, each after the words of its history.

    A state depends on the last ``memory`` words only, so all pieces can take turns like sentences.
    """
    piece = max(_PIECE, memory)
    count = (n + piece - 2) // piece
    ends = np.empty(count, np.int64)
    copies = np.empty(n + count * memory, np.int32)
    out = np.empty(n + count * memory, np.float32)
    at = 0
    for j in range(count):
        for i in range(max(0, 1 + j * piece - memory), min(n, 1 + (j + 1) * piece)):
            copies[at] = ids[i]
            at += 1
        ends[j] = at
    _take_turns(histories, histories_f, slots, slots_f, copies, ends, 0, out)
    total = 0.0
    for j in range(count):
        for i in range(ends[j] - (min(n, 1 + (j + 1) * piece) - 1 - j * piece), ends[j]):
            total += out[i]
    return total


@lazy_jit(types.Bytes(uint8, 1, "C"), int64)
def score_text(data: Any, address: int) -> float:
    """The log-probability of one sentence of UTF-8; line ends are whitespace.

    Reading an array argument takes as long as scoring a word, so the arrays are given by one address.

    Args:
        data: the sentence.
        address: of eight int64 (address and size of the hashes of words, the id of each, histories and slots), and of
            the ids of unknown words, begin and end, the number of words of a history, and whether the model is flat.
    """
    fields = carray(pointer(address, np.int64(0)), 13)
    keys = carray(pointer(fields[0], np.uint64(0)), fields[1])
    values = carray(pointer(fields[2], np.int32(0)), fields[3])
    histories = carray(pointer(fields[4], np.int32(0)), fields[5])
    slots = carray(pointer(fields[6], np.int32(0)), fields[7])
    unknown = fields[8]
    begin = fields[9]
    end = fields[10]
    memory = fields[11]
    flat = fields[12]
    histories_f = histories.view(np.float32)
    slots_f = slots.view(np.float32)
    size = len(data)
    ids = np.empty(size // 2 + 3, np.int32)
    ids[0] = begin
    n = 1
    i = 0
    while i < size:
        kind = KINDS[data[i]]
        width = blank_width(data, i) if kind == MAYBE else int(kind != LETTER)
        if width:
            i += width
            continue
        start = i
        i = word_end(data, i, KINDS)
        key = hash_bytes(data, start, i)
        place = find_slot(keys, key)
        ids[n] = values[place] if keys[place] == key else unknown
        n += 1
    ids[n] = end
    n += 1
    if n > 2 * _PIECE and not flat:
        return _sum_pieces(histories, histories_f, slots, slots_f, ids, n, memory)
    s = step(histories, histories_f, slots, slots_f, 0, begin, flat)[0]
    total = 0.0
    for i in range(1, n):
        s, log_prob = step(histories, histories_f, slots, slots_f, s, np.int64(ids[i]), flat)
        total += log_prob
    return total


@lazy_jit(INTS, FLOATS, INTS, FLOATS, FLOATS, LONGS, int64, FLOATS)
def spread(
    histories: Any, histories_f: Any, slots: Any, slots_f: Any, unigrams: Any, states: Any, flat: int, out: Any
) -> None:
    """``out[row · v + w]`` is log p(w | state): shorter histories first, overwritten by what longer ones know."""
    v = len(unigrams)
    chain = np.empty(256, np.int64)
    passed = np.empty(256, np.float32)
    for row in range(len(states)):
        into = out[row * v : (row + 1) * v]
        depth = 0
        s = states[row]
        total = np.float32(0.0)
        while s != 0:
            chain[depth] = s
            passed[depth] = total
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
