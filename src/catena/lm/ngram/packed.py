"""A back-off model in a layout for fast queries; see :mod:`catena.kernels.ngram.cpu_query`.

Neither torch nor, for a few words in a command, Numba is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from catena._lazy import LazyModule
from catena.accelerators import can_skip_kernels
from catena.errors import DataError
from catena.lm.ngram.trie import Floats, IntegerArray, LongArray, Trie, TrieLayout, check_ids, check_size

_query = LazyModule("catena.kernels.ngram.cpu_query")
_STEP_MICROSECONDS = 20
"""A rough estimate of the time of a step without kernels."""


@dataclass(frozen=True, eq=False)
class PackedNgrams:
    """Histories and slots, four and three 32-bit values each, in memory or in a mapped file.

    Args:
        order: the length of the longest n-grams.
        v: the number of words.
        flat: see :class:`Trie`.
    """

    order: int
    v: int
    flat: bool
    histories: IntegerArray
    slots: IntegerArray

    @classmethod
    def of(cls, trie: Trie) -> PackedNgrams:
        shape = trie.shape
        states = trie.space.zeros(len(shape.words), np.int32)
        n, room = _query.number_states(shape.first, shape.suffix, trie.backoffs, states)
        check_size(3 * room, "slots")
        histories, slots = (trie.space.zeros(size, np.int32) for size in (4 * n, 3 * room))
        _query.pack_trie(
            shape.words, shape.first, shape.suffix, trie.log_probs, trie.backoffs, states,
            histories, histories.view(np.float32), slots, slots.view(np.float32),
        )  # fmt: skip
        return cls(shape.order, shape.v, trie.flat, histories, slots)

    @property
    def n_states(self) -> int:
        return len(self.histories) // 4

    @cached_property
    def _arrays(self) -> tuple[IntegerArray, Floats, IntegerArray, Floats]:
        return self.histories, self.histories.view(np.float32), self.slots, self.slots.view(np.float32)

    @cached_property
    def unigrams(self) -> Floats:
        """The unigram log-probability of each word."""
        return np.ascontiguousarray(self.slots[: 3 * self.v].view(np.float32)[2::3])

    def begin_state(self, begin: int) -> int:
        """The state after the start token, whose id is ``begin``."""
        return int(self.step(np.zeros(1, np.int64), np.array([begin]))[0][0])

    def step(self, states: LongArray, words: LongArray) -> tuple[LongArray, Floats]:
        """The states after these words, and the log-probabilities of the words."""
        check_ids("states", states, self.n_states)
        check_ids("ids", words, self.v)
        if len(states) != len(words):
            raise DataError(
                f"words must be one for each of {len(states)} states, got {len(words)}. Give one word each."
            )
        after, log_probs = np.empty_like(states), np.empty(len(states), np.float32)
        if can_skip_kernels(_STEP_MICROSECONDS * len(states)):
            for i in range(len(states)):
                after[i], log_probs[i] = self._step(int(states[i]), int(words[i]))
        else:
            _query.step_states(*self._arrays, states, words, int(self.flat), after, log_probs)
        return after, log_probs

    def walk(self, ids: IntegerArray, ends: LongArray, begin: int) -> Floats:
        """Log-probabilities of the ids of sentences, which end at ``ends`` and start in state ``begin``."""
        check_ids("ids", ids, self.v)
        check_ids("begin", np.array([begin]), self.n_states)
        edges = np.concatenate(([0], ends, [len(ids)]))
        if (np.diff(edges) < 0).any():
            raise DataError(
                f"ends must increase from 0 to {len(ids)}, the number of ids, got {ends.tolist()[:20]}. Give the index "
                "after the last id of each sentence."
            )
        out = np.empty(len(ids), np.float32)
        if can_skip_kernels(_STEP_MICROSECONDS * len(ids)):
            for low, high in pairwise(edges.tolist()):
                state = begin
                for i in range(low, high):
                    state, out[i] = self._step(state, int(ids[i]))
        elif self.flat:
            _query.walked_plainly(*self._arrays, ids, ends, begin, 1, out)
        else:
            _query.score_sentences(*self._arrays, ids, ends, begin, out)
        return out

    def text_scorer(
        self, keys: NDArray[np.uint64], values: IntegerArray, unknown: int, begin: int, end: int
    ) -> Callable[[bytes], float]:
        """A function from one sentence of UTF-8 to its log-probability, between the words ``begin`` and ``end``.

        Args:
            keys: the hashes of words, a table.
            values: the id of the word in each slot of the table.
            unknown: the id of other words.
            begin: the id before the first word.
            end: the id after the last word.
        """
        check_ids("ids", values, self.v)
        check_ids("ids", np.array([unknown, begin, end]), self.v)
        tables = [
            np.ascontiguousarray(table, dtype)
            for table, dtype in (
                (keys, np.uint64),
                (values, np.int32),
                (self.histories, np.int32),
                (self.slots, np.int32),
            )
        ]
        addresses = [number for table in tables for number in (table.ctypes.data, len(table))]
        fields = np.array([*addresses, unknown, begin, end, self.order - 1, int(self.flat)], np.int64)
        address, score = fields.ctypes.data, _query.score_text.entry_point()

        def score_text(text: bytes, alive: object = (tables, fields)) -> float:
            return score(text, address)

        return score_text

    def _step(self, state: int, word: int) -> tuple[int, np.float32]:
        """The state after a word, and the log-probability of the word, as the kernel computes them."""
        histories, histories_f, slots, slots_f = self._arrays
        passed, failed = np.float32(0.0), False
        while (i := self._slot(state, word)) < 0:
            if not (self.flat and failed):
                passed += histories_f[4 * state + 2]
            failed, state = True, int(histories[4 * state + 3])
        last = slots_f[3 * i + 2]
        return int(slots[3 * i + 1]), passed if self.flat and failed and last > -np.inf else passed + last

    def _slot(self, state: int, word: int) -> int:
        """The slot of a word after a history, or -1."""
        if state == 0:
            return word
        begin, size = int(self.histories[4 * state]), int(self.histories[4 * state + 1])
        if size < 0:
            return begin if -1 - size == word else -1
        words = self.slots[3 * begin : 3 * (begin + size) : 3]
        first = ((word * 0x9E3779B1 & 0xFFFFFFFF) * size) >> 32
        for i in (*range(first, size), *range(first)):
            if words[i] == word:
                return begin + i
            if words[i] < 0 or words[i] > word:  # words were put in by their ids: on the way to one are only lower ones
                return -1
        return -1

    def spread(self, states: LongArray) -> Floats:
        """``[i, w]`` is log p(w | state i)."""
        check_ids("states", states, self.n_states)
        out = np.empty((len(states), self.v), np.float32)
        _query.spread(*self._arrays, self.unigrams, states, int(self.flat), out.reshape(-1))
        return out

    def trie(self) -> Trie:
        """The sorted trie that this was built from."""
        from catena.kernels.ngram.cpu_counts import link_suffixes

        n = 1 + int((self.slots[::3] >= 0).sum())
        words, first = np.zeros(n, np.int32), np.zeros(n + 1, np.int32)
        log_probs, backoffs = np.zeros(n, np.float32), np.zeros(n, np.float32)
        _query.unpack_trie(*self._arrays, words, first, log_probs, backoffs)
        bases = [0, 1]
        for _ in range(self.order):
            bases.append(int(first[bases[-1]]))
        starts = np.array(bases)
        first = first[: bases[self.order] + 1].copy()
        suffix = np.zeros(n, np.int32)
        link_suffixes(words, first, starts, suffix)
        return Trie(
            TrieLayout(words, first, suffix, starts), log_probs, backoffs[: bases[self.order]].copy(), self.flat
        )
