"""Keys and values of a decoder's positions, which rows of a search share.

A row is a list of indices of pool entries, which hold the keys and values of its positions. The pool only grows, so
states are immutable, and reordering or repeating rows copies only these indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from catena.kernels.common.scratch import scratch_array

IntVector = Int[np.ndarray, " n"]
MIN_ENTRIES = 512
"""The number of entries of a new pool."""


class PackedSources(NamedTuple):
    """Keys and values of all real positions of the sources, concatenated; ``width`` is the padded length."""

    data: Float[np.ndarray, "l 2 m h d_head"]
    first: IntVector
    lengths: IntVector
    width: int

    @staticmethod
    def join(several: Sequence[tuple[PackedSources, Int[np.ndarray, " _"]]]) -> PackedSources:
        """The given sources of several batches, concatenated."""
        data = []
        for sources, own in several:
            ends = sources.first[own] + sources.lengths[own]
            positions = [np.arange(first, end) for first, end in zip(sources.first[own], ends, strict=True)]
            data.append(sources.data.take(np.concatenate(positions), axis=2))
        lengths = np.concatenate([sources.lengths[own] for sources, own in several])
        return PackedSources(np.concatenate(data, axis=2), lengths.cumsum() - lengths, lengths, int(lengths.max()))


class EntryPool:
    """Keys and values of all positions, one entry for each.

    Args:
        n_layers: the number of decoder layers.
        n_heads: the number of heads of each.
        d_head: the size of a head.
    """

    def __init__(self, n_layers: int, n_heads: int, d_head: int) -> None:
        self.shape = n_layers, n_heads, d_head
        self.data = self._room(MIN_ENTRIES)
        self.filled = 0
        self.blocks = EntryBlocks(n_layers, n_heads, d_head)

    def taken(self, n: int) -> IntVector:
        """The indices of ``n`` new entries. The pool doubles when it is full."""
        first = self.filled
        self.filled = self.filled + n
        if self.filled > (room := self.data.shape[2]):
            grown = self._room(max(self.filled, 2 * room))
            grown[:, :, :first] = self.data[:, :, :first]
            self.data = grown
        return np.arange(first, self.filled)

    def copied(self, other: EntryPool, entries: Int[np.ndarray, "n t"], begins: IntVector) -> Int[np.ndarray, "n t"]:
        """Copy the entries of some rows of another pool, and return their indices in this one."""
        real = np.arange(entries.shape[1]) >= begins[:, None]
        old, number = np.unique(entries[real], return_inverse=True)
        new = self.taken(len(old))
        self.data[:, :, new] = other.data[:, :, old]
        self.blocks.copy(other.blocks, old, new)
        found = np.zeros_like(entries)
        found[real] = new[number]
        return found

    def _room(self, least: int) -> Float[np.ndarray, "l 2 m h d_head"]:
        """Memory for at least ``least`` entries."""
        n_layers, n_heads, d_head = self.shape
        each = n_layers * 2 * n_heads * d_head
        memory = scratch_array(least * each)
        room = len(memory) // each
        return memory[: room * each].reshape(n_layers, 2, room, n_heads, d_head)


class EntryBlocks:
    """Blocks of consecutive entries in one memory layout, for rows longer than a block.

    An entry belongs to one prefix: in every row the same entries come before it. So a block is identified by
    the last of its entries.
    """

    def __init__(self, n_layers: int, n_heads: int, d_head: int) -> None:
        from catena.engine.cpu_kv_blocks import BLOCK

        self.size = BLOCK
        self.each = (n_layers, 2, n_heads, BLOCK * d_head)
        self.possible = d_head % BLOCK == 0
        self.data = np.empty((0, *self.each), np.float32)
        self.filled = 0
        self.ending = np.empty(0, np.int64)
        """The block that ends with an entry; -1 if there is none."""

    def of(
        self, entries: Int[np.ndarray, "n t"], begins: IntVector
    ) -> tuple[Float[np.ndarray, "m l 2 h s"], Int[np.ndarray, "n k"], IntVector]:
        """All blocks, the blocks of each row, and the new ones that end with the last of its entries; -1 for none."""
        n, t = entries.shape
        fresh = np.full(n, -1)
        if t < self.size or not self.possible:
            return self.data, np.empty((n, 0), np.int64), fresh
        (ending,) = np.nonzero((t - begins) % self.size == 0)
        self._make_room(self.filled + len(ending), int(entries[:, -1].max(initial=0)) + 1)
        fresh[ending] = self._taken(entries[ending, -1])
        last = begins[:, None] + np.arange(self.size - 1, t, self.size)
        ids = self.ending[np.take_along_axis(entries, last.clip(max=t - 1), axis=1)]
        return self.data, np.where(last < t, ids, -1), fresh

    def copy(self, other: EntryBlocks, old: IntVector, new: IntVector) -> None:
        """Copy the blocks of another pool that end with its entries ``old``, sorted, which are ``new`` in this one."""
        old = old[: np.searchsorted(old, len(other.ending))]  # no block ends with later entries
        (ending,) = np.nonzero(other.ending[old] >= 0)
        self._make_room(self.filled + len(ending), int(new.max(initial=-1)) + 1)
        self.data[self._taken(new[ending])] = other.data[other.ending[old[ending]]]

    def _taken(self, last: IntVector) -> IntVector:
        """New blocks that end with the given entries."""
        first = self.filled
        self.filled = self.filled + len(last)
        self.ending[last] = np.arange(first, self.filled)
        return np.arange(first, self.filled)

    def _make_room(self, n_blocks: int, n_entries: int) -> None:
        """Grow the capacity to at least this many blocks and entries, doubling it if needed."""
        if n_blocks > len(self.data):
            each = math.prod(self.each)
            memory = scratch_array(max(n_blocks, 2 * len(self.data)) * each)
            room = len(memory) // each
            grown = memory[: room * each].reshape(room, *self.each)
            grown[: self.filled] = self.data[: self.filled]
            self.data = grown
        if n_entries > len(self.ending):
            more = max(n_entries, 2 * len(self.ending)) - len(self.ending)
            self.ending = np.append(self.ending, np.full(more, -1))
