"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One sequence that was found. ``len(ids) + finished`` steps were taken for it."""

    ids: tuple[int, ...]
    """What was written after the prompt, without the id that ends it."""
    log_prob: float
    """log p(ids), with the factor of the end if it is finished."""
    score: float
    """What the search ranked it by."""
    finished: bool
    """Whether the end was chosen; if not, it was cut off at the maximum length or cannot be continued."""


Hypotheses = list[list[Hypothesis]]
"""The hypotheses of each row, best first."""
