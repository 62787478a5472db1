"""What a search tried, stored as ``search.json`` in the run folder.

Tested in tests/tasks/auto/test_record.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from catena.checkpoint import write_text_atomically
from catena.errors import CheckpointError

FILE = "search.json"
TRIALS = "search"
"""The folder of the trials inside the run folder, while the search is running."""

TrialStatus = Literal["waiting", "trained", "converged", "failed"]


@dataclass
class Trial:
    """A candidate and what came of it.

    Args:
        name: the name of the candidate.
        about: what it is, in a few words.
        values: its config values.
        status: ``waiting`` if it was never trained, ``trained`` if it could be trained longer.
        seconds: time of its training.
        overhead: the largest time that reading the data and loading the model took.
        steps: number of its steps.
        best_step: the step with the best scores.
        scores: its best scores on dev.
        metric: the score that compares candidates.
        higher_is_better: the direction of the metric.
        is_network: whether it is trained by gradient steps.
        speed: steps for each second, without evaluations.
        evaluation: seconds of one evaluation.
        note: why it failed.
        varies: the name of the trial that it varies; empty for a candidate of the table.
        expected: seconds that a variation probably needs.
    """

    name: str
    about: str
    values: dict[str, Any]
    status: TrialStatus = "waiting"
    seconds: float = 0.0
    overhead: float = 0.0
    steps: int = 0
    best_step: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    metric: str = ""
    higher_is_better: bool = True
    is_network: bool = False
    speed: float = 0.0
    evaluation: float = 0.0
    note: str = ""
    varies: str = ""
    expected: float = 0.0

    @property
    def rank(self) -> float:
        """A value that is higher for better candidates; -inf if it has no score."""
        score = self.scores.get(self.metric, math.nan)
        if not math.isfinite(score):
            return -math.inf
        return score if self.higher_is_better else -score

    def line(self) -> str:
        """The candidate in one line of a report."""
        if self.status == "waiting":
            return f"{self.name}: not tried ({self.about})"
        if self.status == "failed":
            return f"{self.name}: failed ({self.note})"
        done = "converged" if self.status == "converged" else "stopped"
        score = f"{self.metric} {self.scores.get(self.metric, math.nan):.4f}"
        return f"{self.name}: dev {score} after {self.seconds:.0f} s, {self.steps:,} steps, {done} ({self.about})"


@dataclass
class SearchRecord:
    """A search: its limits, its data and its trials.

    Args:
        task: the name of the task.
        seconds: the time limit.
        n_examples: number of training examples that were read.
        n_dev: number of dev examples, which compare the candidates.
        command: the command line.
        seed: the seed of every candidate.
        trials: the candidates, the simplest first.
        spent: seconds used so far.
        dev_fraction: the fraction of the training data that is the dev set; 0 if dev has its own file.
        winner: the name of the best candidate, once the search has ended.
        refit: whether the winner was trained again on train and dev.
        n_test: number of test examples.
    """

    task: str
    seconds: float
    n_examples: int
    n_dev: int
    command: tuple[str, ...] = ()
    seed: int = 0
    trials: list[Trial] = field(default_factory=list)
    spent: float = 0.0
    dev_fraction: float = 0.0
    winner: str = ""
    refit: bool = False
    n_test: int = 0

    @property
    def leader(self) -> Trial | None:
        """The best candidate so far. Of equal ones, the simpler one; a network must be better by more than noise."""
        scored = [trial for trial in self.trials if trial.rank > -math.inf]
        best = max(scored, key=lambda trial: trial.rank, default=None)
        if best is None or not best.is_network:
            return best
        counted = max((trial for trial in scored if not trial.is_network), key=lambda trial: trial.rank, default=best)
        return counted if best.rank - counted.rank < self._noise(counted) else best

    def _noise(self, trial: Trial) -> float:
        """Half a standard error of a fraction on dev; 0 for other scores."""
        score = trial.scores[trial.metric]
        if not trial.higher_is_better or not 0 <= score <= 1:
            return 0.0
        return 0.5 * math.sqrt(score * (1 - score) / max(self.n_dev, 1))

    def lines(self) -> list[str]:
        """The search in lines of a report, the best candidate first."""
        trials = sorted(self.trials, key=lambda trial: -trial.rank)
        head = (
            f"search: {len(self.trials)} candidate{'s' * (len(self.trials) != 1)} in {self.spent:.0f} of "
            f"{self.seconds:.0f} s, {self.n_examples:,} examples, compared on {self.n_dev:,} dev examples"
        )
        return [head, *(f"  {trial.line()}" for trial in trials), *self._reason()]

    def _reason(self) -> list[str]:
        winner = next((trial for trial in self.trials if trial.name == self.winner), None)
        if winner is None:
            return []
        others = [trial for trial in self.trials if trial is not winner and trial.rank > -math.inf]
        if not others:
            return [f"chosen: {winner.name} ({winner.about}), the only candidate with a score"]
        second = max(others, key=lambda trial: trial.rank)
        margin = winner.rank - second.rank
        again = "; then trained again on train and dev" if self.refit else ""
        if margin < 0:
            reason = f"simpler than {second.name}, whose score is higher by only {-margin:.4f}"
        else:
            reason = f"better than {second.name} by {margin:.4f} on dev"
        return [f"chosen: {winner.name} ({winner.about}), {reason}{again}"]

    def write(self, folder: Path) -> None:
        """Write ``search.json``."""
        write_text_atomically(folder / FILE, json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n")


def read_record(folder: Path) -> SearchRecord | None:
    """The search of a run folder, or None if its model was not chosen by a search."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        trials = [Trial(**trial) for trial in values.pop("trials")]
        return SearchRecord(**{**values, "command": tuple(values["command"])}, trials=trials)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}. Train the model again.") from None


def plan_slices(seconds: float, n_trials: int, n_workers: int, fractions: Sequence[float]) -> list[tuple[int, float]]:
    """How many trials each rung trains, and for how many seconds each.

    Rung i trains the better third of rung i - 1 (at least one for each worker) and takes ``fractions[i]`` of the time.
    Trials of a rung are trained ``n_workers`` at a time. There is always a first rung, which measures speeds.

    Args:
        seconds: time of all rungs.
        n_trials: number of candidates.
        n_workers: number of trials that are trained at the same time.
        fractions: fraction of the time of each rung except the last, which takes the rest.
    """
    rungs: list[tuple[int, float]] = []
    n = n_trials
    for fraction in fractions:
        if rungs and n <= n_workers:
            break
        waves = math.ceil(n / n_workers)
        rungs.append((n, fraction * seconds / waves))
        n = max(n_workers, math.ceil(n / 3))
    return rungs
