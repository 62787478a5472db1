"""What a search tried, stored as ``search.json`` in the run folder.

Tested in tests/tasks/auto/test_record.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from catena.errors import CheckpointError
from catena.files import write_text_atomically

FILE = "search.json"
TRIALS = "search"
"""The folder of the trials inside the run folder, while the search is running."""

_BETTER = 0.5
"""How many standard errors a network must be better than other models, a variation than what it varies, and another
candidate than the simplest one. Scores on the same examples differ by less noise than each of them has."""
_FINALISTS = 4
"""Largest number of candidates that are compared on further dev sets."""
_CLOSE, _NEAR = 2, 10
"""How many standard errors a candidate may be worse than the best one to be compared, and to be varied."""
_LATE = 0.5
"""Fraction of the steps of a network after which its best step must come if it can improve."""
_UNKNOWN = 0.01
"""The standard error of scores that are not fractions, relative to the score."""
_UNBOUNDED = ("rmse", "mae", "log_loss", "perplexity", "nats_per_token")
"""Scores that are not fractions, even if they are below 1."""

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
        varies: the name of the trial that it varies or repeats; empty for a candidate of the table.
        part: the part of the data that is its dev set; 0 except for trials that repeat others.
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
    part: int = 0

    @property
    def rank(self) -> float:
        """A value that is higher for better candidates; -inf if it has no score."""
        score = self.scores.get(self.metric, math.nan)
        if not math.isfinite(score):
            return -math.inf
        return score if self.higher_is_better else -score

    @property
    def can_improve(self) -> bool:
        """Whether it is a network that was still improving, so that more steps are worth more than a new start."""
        return self.is_network and self.status == "trained" and self.best_step >= _LATE * self.steps

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
        n_decisions: number of independent decisions on dev, if an example has several.
        kept: names of the training options that the user set, which every candidate keeps.
        is_tuned: whether the candidates differ only in options of ``catena tune``, so that none is the simplest.
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
    n_decisions: int = 0
    kept: tuple[str, ...] = ()
    is_tuned: bool = False

    @property
    def leader(self) -> Trial | None:
        """The best candidate so far. Of equal ones, the simpler one.

        A network must be better than all others, another candidate better than the simplest one, and a variation better
        than what it varies, by more than noise.
        Candidates that were compared on several parts of the data win against those that were not.
        """
        ranks = self.mean_ranks() or {trial.name: trial.rank for trial in self.trials if not trial.part}
        scored = [trial for trial in self.trials if ranks.get(trial.name, -math.inf) > -math.inf]
        best = self._choose(scored, ranks)
        if best is None or not best.is_network:
            return self._or_simplest(best, ranks)
        simple = self._or_simplest(self._choose([trial for trial in scored if not trial.is_network], ranks), ranks)
        is_noise = simple is not None and ranks[best.name] - ranks[simple.name] < _BETTER * self.standard_error(simple)
        return simple if is_noise else best

    def _choose(self, trials: Sequence[Trial], ranks: Mapping[str, float]) -> Trial | None:
        """The best of some trials, or the one that it varies if it is hardly better."""
        best = max(trials, key=lambda trial: ranks[trial.name], default=None)
        base = next((trial for trial in trials if best is not None and trial.name == best.varies), None)
        if best is None or base is None:
            return best
        return base if ranks[best.name] - ranks[base.name] < _BETTER * self.standard_error(base) else best

    def to_vary(self) -> list[Trial]:
        """The candidates that may be varied, the best first.

        Those that are close to the best one have converged and were not varied before. None while the best candidate,
        or what it varies, has not converged.
        """
        best = self.leader
        base = next((trial for trial in self.trials if best is not None and trial.name == best.varies), best)
        if best is None or base is None or base.status != "converged":
            return []
        limit = best.rank - _NEAR * self.standard_error(best)
        varied = {trial.varies for trial in self.trials if not trial.part}
        found = [one for one in self.trials if not one.varies and one.name not in varied and one.status == "converged"]
        close = [trial for trial in found if trial is best or limit <= trial.rank]
        return sorted(close, key=lambda trial: (trial is not best, -trial.rank))

    def finalists(self) -> list[Trial]:
        """The best candidates, whose scores on dev are too close to choose by: of each one the best variation first."""
        trials = [trial for trial in self.trials if not trial.part and trial.rank > -math.inf]
        best = max(trials, key=lambda trial: trial.rank, default=None)
        if best is None:
            return []
        order = sorted(trials, key=lambda trial: (-trial.rank, self.trials.index(trial)))
        close = [trial for trial in order if self.is_close(trial, best) and trial.steps > 0]
        families: dict[str, Trial] = {}
        for trial in close:
            families.setdefault(trial.varies or trial.name, trial)
        chosen = [*families.values(), *(trial for trial in close if trial not in families.values())][:_FINALISTS]
        return sorted(chosen, key=order.index)

    def is_close(self, trial: Trial, best: Trial) -> bool:
        """Whether a candidate is so close to the best one on dev that it may be better."""
        return trial.rank >= best.rank - _CLOSE * self.standard_error(best)

    def least_promising(self, finalists: Sequence[Trial]) -> Trial:
        """The finalist that is not compared if there is too little time for all of at least three.

        It is the worst network, or the worst candidate if there is none, but neither the leader nor the simplest
        candidate, which is hard to beat.
        """
        kept = (self.leader, self._simplest)
        others = [trial for trial in reversed(finalists) if trial not in kept]
        return max(others, key=lambda trial: (trial.is_network, -trial.rank))

    @property
    def _simplest(self) -> Trial | None:
        """The simplest candidate; none if it is a network or all are equally simple."""
        return next((trial for trial in self.trials if not self.is_tuned and not trial.is_network), None)

    def _or_simplest(self, best: Trial | None, ranks: Mapping[str, float]) -> Trial | None:
        """The best of some trials without a network, or the simplest candidate if that is hardly worse."""
        first = self._simplest
        if best is None or first is None or best is first or best.varies == first.name:
            return best
        is_noise = ranks[best.name] - ranks.get(first.name, -math.inf) < _BETTER * self.standard_error(best)
        return first if is_noise else best

    def _repeated_ranks(self) -> dict[str, dict[int, float]]:
        """The ranks of the repeated trials on the dev sets that all of them have; empty without such a dev set."""
        ranks: dict[str, dict[int, float]] = {}
        for trial in self.trials:
            if trial.part:
                ranks.setdefault(trial.varies, {})
                if trial.rank > -math.inf:
                    ranks[trial.varies][trial.part] = trial.rank
        common = set[int].intersection(*map(set, ranks.values())) if ranks else set()
        first = {trial.name: trial.rank for trial in self.trials if trial.name in ranks}
        return {name: {0: first[name], **{part: ranks[name][part] for part in common}} for name in first if common}

    def mean_ranks(self) -> dict[str, float]:
        """The mean rank of the trials that were repeated with other dev sets, over those that all of them have."""
        return {name: sum(ranks.values()) / len(ranks) for name, ranks in self._repeated_ranks().items()}

    @property
    def n_parts(self) -> int:
        """The number of dev sets that compare the best candidates."""
        return max((len(ranks) for ranks in self._repeated_ranks().values()), default=1)

    def standard_error(self, trial: Trial) -> float:
        """The standard error of a fraction on dev, such as the accuracy; a small part of other scores."""
        score = trial.scores[trial.metric]
        if not 0 <= score <= 1 or trial.metric in _UNBOUNDED:
            return _UNKNOWN * abs(score)
        return math.sqrt(score * (1 - score) / max(max(self.n_dev, self.n_decisions) * self.n_parts, 1))

    def lines(self) -> list[str]:
        """The search in lines of a report, the best candidate first."""
        trials = sorted((trial for trial in self.trials if not trial.part), key=lambda trial: -trial.rank)
        head = (
            f"search: {len(trials)} candidate{'s' * (len(trials) != 1)} in {self.spent:.0f} of "
            f"{self.seconds:.0f} s, {self.n_examples:,} examples, compared on {self.n_dev:,} dev examples"
        )
        return [head, *(f"  {trial.line()}" for trial in trials), *self._comparison(), *self._reason()]

    def _comparison(self) -> list[str]:
        """A line about the candidates that were compared on several parts of the data."""
        ranks = self.mean_ranks()
        if not ranks:
            return []
        means = sorted(ranks.items(), key=lambda pair: -pair[1])
        listed = ", ".join(f"{name} {abs(rank):.4f}" for name, rank in means)
        return [f"the best on {self.n_parts} dev sets, parts of the data: {listed}"]

    def _reason(self) -> list[str]:
        winner = next((trial for trial in self.trials if trial.name == self.winner), None)
        if winner is None:
            return []
        ranks = self.mean_ranks() or {trial.name: trial.rank for trial in self.trials if not trial.part}
        others = [name for name, rank in ranks.items() if name != winner.name and rank > -math.inf]
        if not others:
            return [f"chosen: {winner.name} ({winner.about}), the only candidate with a score"]
        second = next(trial for trial in self.trials if trial.name == max(others, key=ranks.__getitem__))
        margin = ranks[winner.name] - ranks[second.name]
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
        lists = {name: tuple(values.get(name, ())) for name in ("command", "kept")}
        return SearchRecord(**{**values, **lists}, trials=trials)
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
