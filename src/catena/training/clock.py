"""The time and speed of a run."""

from __future__ import annotations

import time

from catena.training.state import TrainingState

_PROGRESS_EVERY = 0.25
"""Seconds between progress reports. Losses stay on the device until then."""


class Clock:
    """The time a run has taken, without pauses, and its speed."""

    def __init__(self) -> None:
        self.before = 0.0
        self.began = self.marked = self.told = time.monotonic()
        self.tokens = 0

    def start(self, state: TrainingState) -> None:
        """Continue from the time in a state."""
        self.before = state.seconds
        self.began = self.marked = self.told = time.monotonic()
        self.tokens = state.tokens

    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return self.before + time.monotonic() - self.began

    def mark(self, tokens: int) -> None:
        """Start measuring speed."""
        self.marked, self.tokens = time.monotonic(), tokens

    def speed(self, tokens: int) -> float:
        """Tokens per second since the last mark."""
        return (tokens - self.tokens) / max(time.monotonic() - self.marked, 1e-9)

    def progress_is_due(self) -> bool:
        """Whether it is time to report progress."""
        now = time.monotonic()
        if now - self.told < _PROGRESS_EVERY:
            return False
        self.told = now
        return True
