"""Several runs of one experiment, with other seeds or other folds: the mean, and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catena.metrics.intervals import Interval, mean_interval


@dataclass(frozen=True)
class Several:
    """The scores of several runs by seed or fold, and Student's t-interval around their mean."""

    scores: dict[int, float]
    interval: Interval

    @property
    def mean(self) -> float:
        """The mean of the scores."""
        return self.interval.value

    def __str__(self) -> str:
        half = (self.interval.high - self.interval.low) / 2
        return f"{self.mean:.4f} ± {half:.4f} over {len(self.scores)} runs"


def run_several(score_of: Callable[[int], float], numbers: Sequence[int], level: float = 0.95) -> Several:
    """Run an experiment for each seed or fold, one after the other.

    Args:
        score_of: runs it with this seed, or on this fold, and gives its score.
        numbers: the seeds or folds: two or more, each different.
        level: how often intervals made so contain the true mean.
    """
    if len(numbers) < 2 or len(set(numbers)) != len(numbers):
        raise ValueError(f"seeds or folds must be two or more different numbers, and are {list(numbers)}")
    scores = {number: float(score_of(number)) for number in numbers}
    return Several(scores, mean_interval(list(scores.values()), level))
