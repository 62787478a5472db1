"""The clock of training, which can leave out the time in which Numba compiles kernels at their first use.

A search decides by the time that models need, and most of it may be compilation on a new machine. Outside of a search,
limits include it. Tested in tests/training/test_clock.py.
"""

from __future__ import annotations

import time
from typing import Any


class _Compilation:
    """The time that compilation took in this process, as far as it is left out."""

    def __init__(self) -> None:
        self.total = self.began = 0.0
        self.depth = 0

    def start(self) -> None:
        if not self.depth:
            self.began = time.monotonic()
        self.depth += 1

    def end(self) -> None:
        self.depth -= 1
        if not self.depth:
            self.total += time.monotonic() - self.began


_compilation = _Compilation()


def seconds() -> float:
    """Seconds since some time in the past, for differences."""
    return time.monotonic() - _compilation.total


def leave_out_compilation() -> None:
    """Stop the clock of this process from now on while Numba compiles."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc, unused-ignore]
        def on_start(self, event: Any) -> None:
            _compilation.start()

        def on_end(self, event: Any) -> None:
            _compilation.end()

    event.register("numba:compile", Listener())
