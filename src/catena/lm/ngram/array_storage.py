"""Storage of large arrays: in memory, or in mapped files whose pages are released when they grow too large.

Tested in tests/lm/ngram/test_external.py.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike


class ArrayStore:
    """Allocates arrays of zeros in memory."""

    def zeros(self, n: int, dtype: DTypeLike) -> Any:
        return np.zeros(n, dtype)


MEMORY = ArrayStore()


class MappedSpace(ArrayStore):
    """Allocates arrays of zeros in unnamed mapped files.

    While :meth:`watched`, pages of all arrays are released whenever the process holds ``limit`` bytes more than it
    did at the beginning. They stay in the files, or in the page cache, and are loaded again when they
    are accessed. Arrays outlive the space.
    """

    def __init__(self, limit: int, folder: Path | None = None) -> None:
        self.limit, self.folder = limit, folder
        self._maps: list[mmap.mmap] = []
        self._lock = threading.Lock()

    def zeros(self, n: int, dtype: DTypeLike) -> Any:
        nbytes = max(int(n) * np.dtype(dtype).itemsize, 1)
        with tempfile.TemporaryFile(dir=self.folder, prefix="catena-") as file:
            file.truncate(nbytes)
            mapped = mmap.mmap(file.fileno(), nbytes)
        with self._lock:
            self._maps.append(mapped)
        return np.frombuffer(mapped, dtype, int(n))

    def release(self) -> None:
        """Release the pages of all arrays."""
        with self._lock:
            for mapped in self._maps:
                with contextlib.suppress(AttributeError, OSError, ValueError):  # not supported on every system
                    mapped.madvise(mmap.MADV_DONTNEED)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        done, base = threading.Event(), resident_bytes()

        def watch() -> None:
            while not done.wait(0.002):
                if resident_bytes() - base > 0.35 * self.limit:
                    self.release()

        thread = threading.Thread(target=watch, daemon=True, name="catena-space")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.release()


def resident_bytes() -> int:
    """The resident memory of this process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
