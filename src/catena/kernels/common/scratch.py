"""Memory that is used again: large arrays of a search, and what the allocator keeps.

The operating system provides new memory page by page when it is first written to, which takes several times as long as
the writing. So an array that nothing refers to any more, neither a view of it nor a tensor, is kept for the next
request.
"""

from __future__ import annotations

from collections import deque

import numpy as np

MOST = 64 * 2**20
"""Bytes that are kept in all."""

_LARGEST_OF_HEAP = 2**25
"""The largest threshold of glibc: larger blocks are always returned when they are freed."""

_spare: deque[np.ndarray] = deque()


def keep_freed_memory() -> None:
    """Let the allocator of the C library keep up to 64 MiB of freed memory.

    By default glibc returns freed blocks to the operating system as soon as they add up to twice the largest block so
    far, and every page costs about 2 µs when it is written again: half of the time of a chain of 64 rows. After one
    block of 32 MiB was freed, its threshold is 64 MiB. Nothing is written to the block, so it takes no memory.
    """
    np.empty(_LARGEST_OF_HEAP - 2**13, np.uint8)


class _Lent:
    """What numpy takes for the owner of the memory: every view refers to it."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.spare = _spare
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if self.memory.nbytes <= MOST:
            self.spare.append(self.memory)
        while sum(memory.nbytes for memory in tuple(self.spare)) > MOST:
            _first(self.spare)


def _first(spare: deque[np.ndarray]) -> np.ndarray | None:
    """The one that was kept longest, which is taken out; None where another thread has just taken the last."""
    try:
        return spare.popleft()
    except IndexError:
        return None


def scratch_array(size: int) -> np.ndarray:
    """An array of ``size`` numbers of float32 or more, the largest that is kept, which hold anything."""
    kept = []
    while (memory := _first(_spare)) is not None:
        kept.append(memory)  # so that no other thread takes the same
    kept.sort(key=len)
    fits = bool(kept) and len(kept[-1]) >= size
    memory = kept.pop() if fits else np.empty(size, np.float32)
    _spare.extend(kept)
    return np.asarray(_Lent(memory))
