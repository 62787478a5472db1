"""A back-off model in a layout for fast queries; see :mod:`catena.kernels.ngram.cpu_query`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from catena.errors import DataError
from catena.kernels.ngram.cpu_counts import link_suffixes
from catena.kernels.ngram.cpu_query import (
    number_states,
    pack_trie,
    score_sentences,
    spread,
    step_states,
    unpack_trie,
    walked_plainly,
)
from catena.lm.ngram.trie import Floats, IntegerArray, LongArray, Trie, TrieLayout, check_ids, check_size


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
        n, room = number_states(shape.first, shape.suffix, trie.backoffs, states)
        check_size(3 * room, "slots")
        histories, slots = (trie.space.zeros(size, np.int32) for size in (4 * n, 3 * room))
        pack_trie(
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

    def step(self, states: LongArray, words: LongArray) -> tuple[LongArray, Floats]:
        """The states after these words, and the log-probabilities of the words."""
        check_ids("states", states, self.n_states)
        check_ids("ids", words, self.v)
        if len(states) != len(words):
            raise DataError(
                f"words must be one for each of {len(states)} states, got {len(words)}. Give one word each."
            )
        after, log_probs = np.empty_like(states), np.empty(len(states), np.float32)
        step_states(*self._arrays, states, words, int(self.flat), after, log_probs)
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
        if self.flat:
            walked_plainly(*self._arrays, ids, ends, begin, 1, out)
        else:
            score_sentences(*self._arrays, ids, ends, begin, out)
        return out

    def spread(self, states: LongArray) -> Floats:
        """``[i, w]`` is log p(w | state i)."""
        check_ids("states", states, self.n_states)
        out = np.empty((len(states), self.v), np.float32)
        spread(*self._arrays, self.unigrams, states, int(self.flat), out.reshape(-1))
        return out

    def trie(self) -> Trie:
        """The sorted trie that this was built from."""
        n = 1 + int((self.slots[::3] >= 0).sum())
        words, first = np.zeros(n, np.int32), np.zeros(n + 1, np.int32)
        log_probs, backoffs = np.zeros(n, np.float32), np.zeros(n, np.float32)
        unpack_trie(*self._arrays, words, first, log_probs, backoffs)
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
