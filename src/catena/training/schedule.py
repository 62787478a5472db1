r"""Learning rate schedules.

With s the number of the step (the first is 1), w ``warmup_steps`` and T the last step, the peak learning rate is
multiplied by

=================  ===========================================================================
in the warm-up     :math:`s / w`                          for s <= w, for every schedule
constant           :math:`1`
inverse_sqrt       :math:`\sqrt{\max(w, 1) / s}`          Vaswani et al. 2017, section 5.3
linear             :math:`p`                              p = (T + 1 - s) / (T + 1 - w)
cosine             :math:`(1 + \cos \pi (1 - p)) / 2`     Loshchilov & Hutter 2017, equation 5
quarter_cosine     :math:`\cos \frac\pi 2 (1 - p)`        its first quarter
plateau            :attr:`Plateau.reached`
=================  ===========================================================================

p decreases from 1 at the end of the warm-up to 0 one step after the last, so that no step has rate 0. With a time
limit, s is at least 1 plus the elapsed fraction of the time times T - 1, so that p falls even if the time ends first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catena.training.config import ENDING_SCHEDULES, TrainingConfig


def factor(name: str, step: int, warmup: int, last: int | None) -> float:
    """The factor of the peak learning rate at a step. Only schedules that end use ``last``."""
    if step <= warmup:
        return step / warmup
    if name == "inverse_sqrt":
        return math.sqrt(max(warmup, 1) / step)
    if name in ENDING_SCHEDULES:
        if last is None:
            raise ValueError(f"The {name} schedule requires the last step. Pass last.")
        left = max(0.0, (last + 1 - step) / (last + 1 - warmup)) if last >= warmup else 0.0
        if name == "quarter_cosine":
            return math.sin(math.pi / 2 * left)
        return left if name == "linear" else (1 + math.cos(math.pi * (1 - left))) / 2
    return 1.0


@dataclass
class Plateau:
    """Lowers the learning rate after ``patience`` evaluations without a new best."""

    factor: float
    patience: int
    reached: float = 1.0
    """The current factor of the learning rate."""
    waited: int = 0
    """Evaluations since the last new best, or since the rate was last lowered."""

    def evaluated(self, is_best: bool) -> None:
        """Receive the result of an evaluation."""
        self.waited = 0 if is_best else self.waited + 1
        if self.waited >= self.patience:
            self.reached *= self.factor
            self.waited = 0


@dataclass
class LearningRateSchedule:
    """The learning rate of every step of a run."""

    settings: TrainingConfig
    last: int | None
    plateau: Plateau

    def rate(self, step: int, elapsed: float = 0.0) -> float:
        """The learning rate of a step.

        Args:
            step: the step; the first is 1.
            elapsed: the elapsed fraction of the time limit; 0 without a limit.
        """
        peak = self.settings.learning_rate
        assert peak is not None, "the settings fill it in"
        if self.last is not None and self.settings.schedule in ENDING_SCHEDULES and step > self.settings.warmup_steps:
            step = max(step, 1 + math.floor(min(elapsed, 1.0) * (self.last - 1)))
        now = peak * factor(self.settings.schedule, step, self.settings.warmup_steps, self.last)
        return now * self.plateau.reached

    def evaluated(self, is_best: bool) -> None:
        """Receive the result of an evaluation."""
        if self.settings.schedule == "plateau":
            self.plateau.evaluated(is_best)


def build_schedule(settings: TrainingConfig, last: int | None) -> LearningRateSchedule:
    """The schedule that the config selects. ``last`` is the last step, if known."""
    return LearningRateSchedule(settings, last, Plateau(settings.plateau_factor, settings.plateau_patience))
