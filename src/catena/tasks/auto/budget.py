"""How a search divides its time: what is kept for scoring the test set and for training the best candidate again.

Tested in tests/tasks/auto/test_budget.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catena.tasks.auto.record import SearchRecord, Trial

_RESERVE = 0.04
"""Fraction of the time that is left for loading the best model and scoring a small test set."""
_TEST = 4.0
"""Time of scoring a test example with a network, which may use a wider beam, relative to that of a dev example."""
_MAX_RESERVE = 0.25
_REFIT = 0.4
"""Largest fraction of the time for training the best candidate again on train and dev, if dev was split off train."""
LARGE_DEV = 0.1
"""Fraction of train above which the dev set is worth time of networks; otherwise, only time that is left is used."""
_ENOUGH = 0.5
"""Smallest fraction of the time that is kept for it in which a network continues on all data."""
_COMPARING = 0.25
"""Fraction of the time for comparing the best candidates on further parts of the data, if there is little of it."""
_SAFETY = 1.3
"""Factor of the time that a model took, for training it again on more data."""
_LATE = 0.03
"""Fraction of the time by which the last candidates may end too late."""
_VARIATIONS = 16
"""Largest number of variations of a candidate."""
_LONGER = 2.0
"""A variation of a network, and training it again, takes this many times the best number of steps at a constant rate:
its learning rate falls to 0 and is half as large on average."""
_EVALUATIONS = 20
_EVALUATING = 0.15
"""Number of evaluations of the last candidates, and the fraction of their time that these may take."""


@dataclass(frozen=True)
class Budget:
    """The time of a search.

    Args:
        record: its limits and trials.
        can_refit: whether the best candidate may be trained again on train and dev.
        can_compare: whether further dev sets can be split off.
    """

    record: SearchRecord
    can_refit: bool
    can_compare: bool = False

    def for_test(self) -> float:
        """Seconds that are kept for loading the best model and scoring the test set."""
        leader, n_dev = self.record.leader, max(self.record.n_dev, 1)
        factor = _TEST if leader is not None and leader.is_network else _SAFETY
        scoring = 0.0 if leader is None else factor * leader.evaluation * self.record.n_test / n_dev
        return max(_RESERVE * self.record.seconds, min(scoring, _MAX_RESERVE * self.record.seconds))

    def for_training_again(self) -> float:
        """Seconds that are kept for training the best candidate again on train and dev; 0 if it needs more.

        Before candidates are compared on further dev sets, any model without gradient steps among them may win.
        """
        leader = self.record.leader
        if leader is None:
            is_large = self.record.dev_fraction > LARGE_DEV
            return _REFIT * self.record.seconds if self.can_refit and is_large else 0.0
        others = self.record.finalists() if self.can_compare and not self.record.mean_ranks() else []
        return max(self._again(trial) for trial in [leader, *others] if trial is leader or not trial.is_network)

    def _again(self, trial: Trial) -> float:
        """Seconds that are kept for training one candidate again."""
        most, is_large = _REFIT * self.record.seconds, self.record.dev_fraction > LARGE_DEV
        if not self.can_refit or (trial.is_network and not is_large):
            return 0.0
        if trial.can_improve:
            return most
        needed = _SAFETY * (trial.overhead + self._seconds_of(trial, self._steps_wanted(trial)))
        wanted = needed * self._longer(trial)
        late = _LATE * self.record.seconds
        fits = trial.is_network or needed / _SAFETY + late <= most
        return min(most, wanted + late) if fits else 0.0

    def for_comparing(self) -> float:
        """Seconds that are kept for comparing the best candidates on further dev sets.

        A network that has not converged needs the time itself, and so does one whose dev set is large.
        """
        leader = self.record.leader
        is_done = leader is not None and leader.status == "converged"
        is_small = self.record.dev_fraction > LARGE_DEV or (leader is not None and not leader.is_network)
        return _COMPARING * self.record.seconds if self.can_compare and is_done and is_small else 0.0

    def _seconds_of(self, trial: Trial, steps: int) -> float:
        """The time of training a candidate again for some steps."""
        if trial.is_network:
            return trial.evaluation + steps / max(trial.speed, 1e-9)
        return trial.seconds * steps / max(trial.steps, 1) / (1 - self.record.dev_fraction)

    def _steps_wanted(self, trial: Trial) -> int:
        """The best number of steps of a candidate, on all data. Only networks take more steps for more data."""
        return math.ceil(trial.best_step / (1 - self.record.dev_fraction)) if trial.is_network else trial.best_step

    def _longer(self, trial: Trial) -> float:
        """The number of steps of training again relative to the best one, since the learning rate falls from the start.

        One that has converged overfits if it is trained for much longer, and a variation had this schedule before.
        """
        return _LONGER if trial.is_network and not trial.varies else 1.0

    def steps_again(self, leader: Trial, left: float) -> int:
        """The number of steps with which the best candidate is trained again.

        Args:
            leader: the best candidate.
            left: seconds that are left for training.

        Returns:
            The number of steps; 0 if there is too little time for most of them.
        """
        wanted = self._steps_wanted(leader)
        if not leader.is_network:
            return wanted if self._seconds_of(leader, wanted) <= left else 0
        is_too_late = self.continues(leader, left) and not left > _ENOUGH * self._again(leader) > 0
        return 0 if is_too_late else math.ceil(self._longer(leader) * wanted)

    def continues(self, leader: Trial, left: float) -> bool:
        """Whether the best candidate is trained on all data from its best weights instead of from scratch.

        It is if it was still improving, or if there is too little time for a new start. Its rate falls with the time.
        """
        wanted = self._longer(leader) * self._steps_wanted(leader)
        return leader.is_network and (leader.can_improve or self.affordable(leader, left)[1] < wanted)

    def variation(self, base: Trial) -> tuple[float, int | None]:
        """Seconds that a variation of a converged trial probably needs, and its number of steps if it is a network."""
        steps = math.ceil(_LONGER * max(base.best_step, 1)) if base.is_network else None
        seconds = base.seconds if steps is None else _EVALUATIONS * base.evaluation + steps / max(base.speed, 1e-9)
        return base.overhead + seconds, steps

    def number_of_variations(self, seconds: float, left: float, n_workers: int) -> int:
        """How many variations fit into the time that is left."""
        return min(_VARIATIONS, int(left / max(seconds, 1e-9)) * n_workers)

    def affordable(self, trial: Trial, left: float) -> tuple[int, int]:
        """The number of evaluations, which take a small part of the time, and the steps for the rest."""
        n = max(1, min(_EVALUATIONS, int(_EVALUATING * left / max(trial.evaluation, 1e-9))))
        return n, int(trial.speed * (left - n * trial.evaluation))
