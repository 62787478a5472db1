"""Several runs of one experiment, with other seeds or other folds: the mean, and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Interval = Callable[[Sequence[float]], tuple[float, float]]
"""From scores to the lower and the upper end of an interval for their mean."""


@dataclass(frozen=True)
class Several:
    """The scores of several runs, by seed or fold."""

    scores: dict[int, float]
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        return f"{self.mean:.4f} ± {half:.4f} over {len(self.scores)} runs"


def run_several(score_of: Callable[[int], float], numbers: Sequence[int], interval: Interval) -> Several:
    """Run an experiment for each seed or fold, one after the other.

    Args:
        score_of: runs it with this seed, or on this fold, and gives its score.
        numbers: the seeds or folds, each different.
        interval: how the interval is computed from the scores.
    """
    if not numbers or len(set(numbers)) != len(numbers):
        raise ValueError(f"seeds or folds must be some different numbers, and are {list(numbers)}")
    scores = {number: float(score_of(number)) for number in numbers}
    low, high = interval(list(scores.values()))
    return Several(scores, sum(scores.values()) / len(scores), low, high)
