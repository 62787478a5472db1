"""Hypotheses: the output of a search. Tested in tests/search/test_cost.py and tests/search/test_beam.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One generated sequence, which took ``len(ids) + finished`` steps.

    Args:
        ids: the generated ids after the prompt, without the end.
        log_prob: log p(ids), including the end if it is finished.
        score: the score that the search ranked it by.
        finished: whether the end was generated.
    """

    ids: tuple[int, ...]
    """The generated ids after the prompt, without the end."""
    log_prob: float
    """log p(ids), including the end if it is finished."""
    score: float
    """The score that the search ranked it by."""
    finished: bool
    """Whether the end was generated; if not, it was cut off at the maximum length or cannot be continued."""


Hypotheses = list[list[Hypothesis]]
"""The hypotheses of each row, best first."""
