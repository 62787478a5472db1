"""The search for the best model that the data and the time allow: successive halving of the candidates of a task.

Every candidate is trained for a short time, the better third is resumed for longer, and the last ones, one for each
core, are trained until the time is over, with a learning rate that falls to 0. The best on dev becomes the run.
Candidates are ordinary runs that are resumed exactly, so a search that was killed continues where it was. Imports no
torch: training happens in the processes of :mod:`catena.tasks.auto.trials`.

Jamieson & Talwalkar (2016). Tested in tests/tasks/auto/test_search.py.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from catena.checkpoint import LOG, META
from catena.config import parse
from catena.errors import CatenaError, CheckpointError, DataError
from catena.tasks.auto.budget import Budget
from catena.tasks.auto.record import TRIALS, SearchRecord, Trial, plan_slices, read_record
from catena.tasks.auto.table import Candidate, DataSize, read_ranking, suitable
from catena.tasks.auto.trials import Conclusion, CountJob, Job, Outcome, Slice, Worker, kept_steps
from catena.tasks.auto.unlabeled import FOLDER as VECTORS
from catena.tasks.auto.unlabeled import check_unlabeled, vectors_job, with_vectors
from catena.tasks.auto.variations import values_on_all_data, vary
from catena.tasks.base import TrainResult
from catena.tasks.spec import TaskSpec, get_spec
from catena.training.device import Interruption

_FRACTIONS = (0.3, 0.3)
"""Fractions of the time for the first rungs; the last candidates take the rest."""
_CONSTANT = 0.7
"""Fraction of the time in which the learning rate of the best network does not fall if it is still improving."""
_MIN_LEFT = 0.1
"""Smallest fraction of the time for the search, even if reading the data took longer."""
_GRACE = 0.05
"""Fraction of the time after which a candidate that ignores its limit is stopped."""
_FIRST = 60.0
"""Seconds, if the limit is shorter, that the simplest candidate may take after the time is over while none has a score:
at the first use of a model, its kernels are compiled."""
_STOPPING = 5.0
"""Seconds after Ctrl-C in which a candidate may store its state; one that is made in one pass cannot."""
_MIN_DEV = 200
"""Number of dev examples that can separate candidates."""
_MAX_DEV_FRACTION = 0.25
_MAX_WORKERS = 8
_AGAIN = "again"
"""The folder of the best candidate while it is trained on train and dev."""
_SIMPLEST = 0.4
"""Largest fraction of the time for the first training of the simplest candidate."""
_ROUNDS = 3
"""How often the last candidates are resumed if they end before the deadline."""
_UNUSED = 0.1
"""Fraction of the time that may stay unused."""
_VARYING = 0.3
"""Fraction of the remaining time for variations of the best candidate while others have not converged."""
_VARIATION_EVALUATIONS = 10
_PAST = 0.75
"""A network has converged if its best step comes before this fraction of its steps although its learning rate fell."""
_PARTS = 5
"""Largest number of dev sets that compare the best candidates."""
_WORDWISE = ("tag", "parse")
"""Tasks with a decision for each word. Half of the decisions count as independent."""
_BUSY = 1.5
"""Number of running programs for each core of the machine from which a network uses one thread."""
_STEPS_MARGIN = 1.5
"""The last step, relative to the steps that the speed so far allows on each core. The learning rate falls with the time
too, so it reaches 0 even if the machine becomes slower."""


def search_model(
    spec: TaskSpec,
    values: Mapping[str, Any],
    folder: Path,
    seconds: float,
    note: Callable[[str], None],
    *,
    command: Sequence[str] = (),
    source: str = "the command line",
    candidates: Sequence[tuple[Candidate, dict[str, Any]]] | None = None,
    unlabeled: Sequence[Path] = (),
) -> TrainResult:
    """Train the best model that a search finds within a time limit into a run folder.

    Args:
        spec: the task.
        values: the config values that the user set, with absolute paths. Candidates keep them.
        folder: the run folder, which must not exist.
        seconds: the time limit.
        note: receives lines about the progress.
        command: the command line, stored in the run.
        source: where the values come from, for errors.
        candidates: the candidates with their config values, instead of those of the task's table.
        unlabeled: files of text. Networks are also tried with word vectors that were trained on it.
    """
    began = time.monotonic()
    if unlabeled:
        check_unlabeled(spec, unlabeled)
    with _workers(values) as workers:
        size = _examine(workers[0], spec, values)
        found = suitable(spec, values, size, seconds, source) if candidates is None else candidates
        is_choice = len(found) > 1 or any(candidate.vary for candidate, _ in found)
        values, n_dev, fraction = _with_dev(spec, values, size, note, is_choice)
        if unlabeled:
            found = with_vectors(spec, found, folder)
            _train_vectors(workers[0], vectors_job(unlabeled, folder, seconds), note)
        trials = [Trial(candidate.name, candidate.about, _with_data(its, values)) for candidate, its in found]
        record = SearchRecord(
            spec.name, seconds, size.n_train, n_dev, tuple(command), trials=trials, dev_fraction=fraction,
            n_test=size.n_test, kept=_kept_options(values, candidates), is_tuned=candidates is not None,
            n_decisions=round(n_dev * size.n_words / max(size.n_train, 1) / 2) if spec.name in _WORDWISE else n_dev,
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        record.write(folder)
        return _Search(record, folder, workers[:1] if size.has_gpu else workers, note, began).run()


def _kept_options(
    values: Mapping[str, Any], candidates: Sequence[tuple[Candidate, dict[str, Any]]] | None
) -> tuple[str, ...]:
    """The names of the training options that the user set, or that the candidates of ``catena tune`` differ in."""
    sources = [values] if candidates is None else [candidate.config for candidate, _ in candidates]
    return tuple(sorted({name for source in sources for name in source.get("training", {})}))


def _train_vectors(worker: Worker, job: Slice, note: Callable[[str], None]) -> None:
    """Train word vectors on unlabeled text."""
    began = time.monotonic()
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    worker.start(job)
    outcome = worker.result()
    if isinstance(outcome, Outcome) and outcome.reason == "failed":
        raise DataError(f"No word vectors could be trained on the unlabeled text: {outcome.lines[0]}")
    note(f"unlabeled: word vectors trained in {time.monotonic() - began:.0f} s")


def continue_search(folder: Path, note: Callable[[str], None]) -> TrainResult:
    """Continue a search that was interrupted or killed."""
    record = read_record(folder)
    if record is None or record.winner:
        raise CheckpointError(f"{folder} has no unfinished search. Run 'catena resume {folder}' to train its model.")
    began = time.monotonic() - record.spent
    values = record.trials[0].values
    with _workers(values) as workers:
        size = _examine(workers[0], get_spec(record.task), values)
        return _Search(record, folder, workers[:1] if size.has_gpu else workers, note, began).run()


def is_unfinished(folder: Path) -> bool:
    """Whether a folder holds a search that can be continued."""
    record = read_record(folder)
    return record is not None and not record.winner


def _with_data(its: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a candidate with the dev set of the search."""
    return {**its, "data": values.get("data", {})}


@contextmanager
def _workers(values: Mapping[str, Any]) -> Iterator[list[Worker]]:
    threads = values.get("machine", {}).get("threads")
    n = int(threads) if isinstance(threads, int) else len(os.sched_getaffinity(0)) if _HAS_AFFINITY else os.cpu_count()
    workers = [Worker() for _ in range(max(1, min(n or 1, _MAX_WORKERS)))]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()


_HAS_AFFINITY = hasattr(os, "sched_getaffinity")


def _is_busy() -> bool:
    """Whether other programs keep the machine so busy that the threads of a network would wait for each other."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > _BUSY * (os.cpu_count() or 1)


def _examine(worker: Worker, spec: TaskSpec, values: Mapping[str, Any]) -> DataSize:
    worker.start(CountJob(spec.name, dict(values)))
    found = worker.result()
    if isinstance(found, Outcome):
        raise DataError(found.lines[0])
    return found


def _with_dev(
    spec: TaskSpec, values: Mapping[str, Any], size: DataSize, note: Callable[[str], None], is_choice: bool
) -> tuple[dict[str, Any], int, float]:
    """The values with a dev set that is large enough to compare candidates, its size and its fraction of train.

    It is not enlarged if there is no choice among candidates.
    """
    config: Any = parse(spec.config_class(), values)
    data = dict(values.get("data", {}))
    if size.n_dev:
        return dict(values), size.n_dev, 0.0
    fraction = getattr(config.data, "dev_fraction", 0.0)
    if is_choice and "dev_fraction" not in data and 0 < fraction * size.n_train < _MIN_DEV:
        fraction = max(fraction, min(_MAX_DEV_FRACTION, round(_MIN_DEV / size.n_train, 3)))
        data["dev_fraction"] = fraction
        note(f"dev: {fraction:.1%} of {size.n_train:,} examples, enlarged so that it can compare candidates")
    return {**values, "data": data}, math.ceil(fraction * size.n_train), fraction


def _measure(trial: Trial, outcome: Outcome) -> None:
    """Update the speed of a candidate by a slice, which ended with at least one evaluation."""
    trial.evaluation = outcome.evaluation_seconds or trial.evaluation  # 0 if nothing was left to train
    seconds = outcome.seconds - trial.seconds - trial.evaluation
    if seconds > 0 and outcome.steps > trial.steps:
        trial.speed = max(trial.speed, (outcome.steps - trial.steps) / seconds)


def _data_options(record: SearchRecord) -> set[str]:
    config: Any = parse(get_spec(record.task).config_class(), record.trials[0].values)
    return set(type(config.data).model_fields)


class _Search:
    """A search with its workers and its deadline."""

    def __init__(
        self, record: SearchRecord, folder: Path, workers: list[Worker], note: Callable[[str], None], began: float
    ) -> None:
        self.record, self.folder, self.workers, self.note, self.began = record, folder, workers, note, began
        options = _data_options(record)
        is_set = "train_on_dev" in record.trials[0].values.get("data", {})  # --train-on-dev false: not again
        can_refit = "train_on_dev" in options and record.dev_fraction > 0 and not is_set
        self.budget = Budget(record, can_refit, "dev_part" in options and record.dev_fraction > 0)
        self.deadline = self._refit_start()
        self.last_moment = began + record.seconds * (1 + _GRACE)
        self.first_moment = max(self.last_moment, time.monotonic()) + max(record.seconds, _FIRST)
        self.interrupted = self.is_late = False

    def run(self) -> TrainResult:
        """Train the candidates, and make the best one the run."""
        left = max(self._left(), _MIN_LEFT * self.record.seconds)
        rungs = plan_slices(left, len(self.record.trials), len(self.workers), _FRACTIONS)
        total = 0.0
        with Interruption() as interruption:
            for n, seconds in rungs:
                total += max(seconds, 1.0)
                self._train(
                    [self._slice(trial, self._limit(trial, total, left)) for trial in self._best(n)], interruption
                )
            self.deadline = self._refit_start()
            left = self._left() - (1 - _CONSTANT) * (self.deadline - self.began)
            if left > 0 and self.record.leader is not None and self.record.leader.can_improve:
                last = self._best(len(self.workers))
                self._train([self._constant_slice(trial, left) for trial in last], interruption)
            self._finish(interruption, lambda: self._refit_start() - self.budget.for_comparing())
            self.deadline = self._refit_start()
            self._compare(interruption)
            if not self.record.mean_ranks():  # time that was kept for comparing
                self._finish(interruption, self._refit_start)
            self.deadline = self._end()
            self._use_the_rest(interruption)
            self.interrupted = interruption.requested
        return self._conclude()

    def _limit(self, trial: Trial, seconds: float, left: float) -> float:
        """The training time of a candidate in a rung. The simplest one may converge while others are tried."""
        is_first = trial is self.record.trials[0] and not trial.scores and len(self.workers) > 1
        return max(seconds, _SIMPLEST * left) if is_first else seconds

    def _end(self) -> float:
        """When the best model must be ready for scoring the test set."""
        return self.began + self.record.seconds - self.budget.for_test()

    def _refit_start(self) -> float:
        """When the training of the best candidate on train and dev must begin."""
        return self._end() - self.budget.for_training_again()

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _best(self, n: int) -> list[Trial]:
        """The ``n`` best candidates that can be trained longer, in the order of the table at first."""
        trials = (trial for trial in self.record.trials if not trial.part)
        open_ = [trial for trial in trials if trial.status in ("waiting", "trained")]
        return sorted(open_, key=lambda trial: -trial.rank if trial.scores else -math.inf)[:n]

    def _last(self) -> list[Trial]:
        """The candidates that are trained until the time is over.

        If the best one is a network that can be trained longer, it takes the cores of those that are not close to it.
        """
        trials, leader = self._best(len(self.workers)), self.record.leader
        if leader is None or not leader.can_improve:
            return trials
        return [trial for trial in trials if self.record.is_close(trial, leader)]

    def _slice(self, trial: Trial, seconds: float, steps: int | None = None, n: int = 1) -> tuple[Trial, Slice]:
        folder = self.folder / TRIALS / trial.name
        kept = self.record.kept
        if trial.name == _AGAIN:  # dev is part of train here and cannot stop the training
            kept = tuple(name for name in kept if name not in ("patience", "eval_every"))
        command, has_rate = self.record.command, trial.is_network
        return trial, Slice(self.record.task, trial.values, folder, seconds, steps, n, command, kept, has_rate)

    def _finish(self, interruption: Interruption, deadline: Callable[[], float]) -> None:
        """Train variations of the best candidate, then the last candidates until the time is over.

        The deadline changes with the best candidate, since what its training on all data needs is kept.
        """
        n_workers, self.deadline = len(self.workers), deadline()
        if self._best(1):
            self._train(self._variations(n_workers, _VARYING * self._left()), interruption)
        for _ in range(_ROUNDS):
            self.deadline = deadline()
            last = self._last()
            cores = max(1, n_workers // max(len(last), 1))
            jobs = [job for trial in last if (job := self._last_slice(trial, cores)) is not None]
            if len(jobs) < n_workers:
                jobs += self._variations(n_workers - len(jobs), self._left())
            self._train(jobs, interruption)
            if interruption.requested or not jobs or self._left() < _UNUSED * self.record.seconds:
                break
        if not interruption.requested:
            self.record.trials = [one for one in self.record.trials if not one.varies or one.status != "waiting"]

    def _variations(self, n_workers: int, seconds: float) -> list[tuple[Trial, Slice]]:
        """The training of variations of the best candidate that has them, by some workers for some time."""
        for base in self.record.to_vary():
            expected, steps = self.budget.variation(base)
            n = self.budget.number_of_variations(expected, seconds, n_workers)
            trials = vary(self.record.task, base, n, self.record.seed)
            for trial in trials:
                trial.expected = expected
            self.record.trials += trials
            if trials:
                return [self._slice(trial, max(1.0, self._left()), steps, _VARIATION_EVALUATIONS) for trial in trials]
        return []

    def _last_slice(self, trial: Trial, cores: int) -> tuple[Trial, Slice] | None:
        """The training of a candidate on some cores until the deadline; None if there is too little time."""
        left = self._left() - trial.overhead
        if left < max(1.0, 2 * trial.evaluation):
            return None
        if not trial.is_network or not trial.speed:
            return self._slice(trial, trial.seconds + left)
        n, steps = self.budget.affordable(trial, left)
        steps = trial.steps + math.ceil(_STEPS_MARGIN * cores * steps)
        if steps <= trial.steps:
            return None
        _, job = self._slice(trial, trial.seconds + left, steps, n)
        return trial, replace(job, has_rate=not self._continues_on_all_data())

    def _constant_slice(self, trial: Trial, seconds: float) -> tuple[Trial, Slice]:
        """More training of a candidate without early stopping, which the noise of dev would cause."""
        if not trial.is_network or not trial.speed:
            return self._slice(trial, trial.seconds + seconds)
        n, steps = self.budget.affordable(trial, seconds)
        cores = len(self.workers)
        _, job = self._slice(trial, trial.seconds + seconds, trial.steps + math.ceil(_STEPS_MARGIN * cores * steps), n)
        return trial, replace(job, has_rate=False)

    def _continues_on_all_data(self) -> bool:
        """Whether the best of the last candidates is trained for longer after them, when its learning rate falls.

        Other models are compared with networks whose rate has fallen.
        """
        only_networks = all(trial.is_network for trial in self.record.trials if trial.scores)
        return only_networks and self.budget.for_training_again() > 0 and self.deadline < self._end()

    def _compare(self, interruption: Interruption) -> None:
        """Train the best candidates with other parts of the data as dev sets, if dev is too small to choose by."""
        n_parts = min(_PARTS, math.floor(1 / max(self.record.dev_fraction, 1e-9) + 1e-9))
        finalists = self.record.finalists()
        if interruption.requested or not self.budget.can_compare or len(finalists) < 2 or n_parts < 2:
            return
        needed = {trial.name: self.budget.variation(trial) for trial in finalists}

        def fitting() -> int:
            """The number of further dev sets for which there is time."""
            seconds = sum(needed[trial.name][0] for trial in finalists) / len(self.workers)
            return min(n_parts - 1, int(self._left() / max(seconds, 1e-9)))

        while len(finalists) > 2 and not fitting():
            finalists.remove(self.record.least_promising(finalists))
        jobs = []
        for part in range(1, fitting() + 1):
            for base in finalists:
                trial = self._repeated(base, part)
                if trial.status in ("converged", "failed"):
                    continue
                trial.expected, steps = needed[base.name]
                jobs.append(self._slice(trial, max(1.0, self._left()), steps, _VARIATION_EVALUATIONS))
        self._train(jobs, interruption)
        self.record.trials = [one for one in self.record.trials if not one.part or one.status != "waiting"]

    def _repeated(self, base: Trial, part: int) -> Trial:
        """The trial of a candidate with another dev set, which an interrupted search may have begun."""
        name = f"{base.name}-part{part}"
        found = next((trial for trial in self.record.trials if trial.name == name), None)
        if found is None:
            data = {**base.values.get("data", {}), "dev_part": part}
            values = {**base.values, "data": data}
            found = Trial(name, base.about, values, is_network=base.is_network, varies=base.name, part=part)
            self.record.trials.append(found)
        return found

    def _use_the_rest(self, interruption: Interruption) -> None:
        """Train the best candidate again on train and dev, or the last ones for longer if there is too little time."""
        leader = self.record.leader
        if leader is None or interruption.requested:
            return
        steps = self.budget.steps_again(leader, self._left() - leader.overhead) if self.budget.can_refit else 0
        if steps:
            self._refit(leader, steps, interruption)
        else:
            self._finish(interruption, self._end)

    def _refit(self, leader: Trial, steps: int, interruption: Interruption) -> None:
        """Train the best candidate on train and dev, from scratch or from its best weights."""
        left = self._left() - leader.overhead
        if left <= 0:
            return
        run = self.folder / TRIALS / leader.name
        values = values_on_all_data(self.record.task, leader.values, run, leader.scores)
        again = Trial(_AGAIN, leader.about, values, is_network=leader.is_network)
        # Only the last step is evaluated: dev is part of train here and cannot choose among checkpoints.
        _, job = self._slice(again, left, steps if leader.steps > 1 else None)
        if self.budget.continues(leader, left):
            job = replace(job, start=run, seconds=max(1.0, left - leader.evaluation))
        self._train([(again, job)], interruption)
        if job.start is not None and again.status == "failed":  # dev has labels that its first weights do not know
            again.status = "waiting"
            shutil.rmtree(job.folder, ignore_errors=True)
            left = max(1.0, self._left() - leader.overhead)
            self._train([(again, replace(job, start=None, seconds=left))], interruption)
        self.record.refit = bool(again.scores) and not interruption.requested

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _train(self, jobs: Sequence[tuple[Trial, Slice]], interruption: Interruption) -> None:
        """Train slices on all workers until they end, the user interrupts, or the last moment has come.

        They divide the cores among them.
        """
        waiting = deque((trial, job) for trial, job in jobs if not trial.scores or trial.seconds < job.seconds - 0.5)
        n_workers = len(self.workers)
        each = 1 if _is_busy() else max(1, n_workers // max(len(waiting), 1))
        threads = each if n_workers > 1 else None
        busy: dict[int, tuple[Worker, Trial]] = {}
        interrupted_at: float | None = None
        while waiting or busy:
            if interruption.requested:
                waiting.clear()
            elif self._left() < 0:  # the simplest candidate is trained in any case
                while len(waiting) > (not busy and self.record.leader is None and not self._must_stop()):
                    waiting.pop()
            elif waiting and self._left() < waiting[0][0].expected:
                waiting.popleft()
            for i, worker in enumerate(self.workers):
                if waiting and worker.job is None:
                    trial, job = waiting.popleft()
                    seconds = max(1.0, self._left()) if trial.varies else job.seconds
                    worker.start(replace(job, seconds=seconds, threads=threads))
                    busy[i] = worker, trial
            ready = wait([worker.connection for worker, _ in busy.values()], timeout=0.2)
            for i in [i for i, (worker, _) in busy.items() if worker.connection in ready]:
                self._take(*busy.pop(i), i)
            if interruption.requested and interrupted_at is None:
                interrupted_at = time.monotonic()
                for worker, _ in busy.values():
                    worker.interrupt()
            is_ignored = interrupted_at is not None and time.monotonic() - interrupted_at > _STOPPING
            if is_ignored or self._must_stop():
                for i, (worker, trial) in list(busy.items()):
                    self._abandon(worker, trial, i, is_late=not is_ignored)
                    busy.pop(i)

    def _must_stop(self) -> bool:
        """Whether running candidates are stopped. While none has a score, the simplest one gets more time."""
        now = time.monotonic()
        if self.record.leader is None and self.last_moment < now and not self.is_late:
            self.is_late = True
            left = max(0.0, self.first_moment - now)
            self.note(
                f"{now - self.began:.0f} of {self.record.seconds:.0f} s: none has a score yet, so the simplest gets up "
                f"to {left:.0f} s more (at their first use, models are compiled)"
            )
        return now > (self.last_moment if self.record.leader is not None else self.first_moment)

    def _take(self, worker: Worker, trial: Trial, i: int) -> None:
        """Store the outcome of a slice."""
        job, outcome = worker.job, worker.result()
        assert isinstance(outcome, Outcome)
        elapsed = outcome.elapsed or time.monotonic() - worker.began
        if not worker.process.is_alive():
            self.workers[i] = Worker()
        if outcome.reason == "failed":
            trial.status, trial.note = ("trained", "") if trial.scores else ("failed", outcome.lines[0])
        else:
            trial.overhead = max(0.0, elapsed - (outcome.seconds - trial.seconds))
            _measure(trial, outcome)
            trial.seconds, trial.steps, trial.best_step = outcome.seconds, outcome.steps, outcome.best_step
            trial.scores = outcome.scores
            rank_by = read_ranking(self.record.task)
            ranked = rank_by in outcome.scores
            trial.metric = rank_by if ranked else outcome.metric
            trial.higher_is_better = ranked or outcome.higher_is_better
            trial.is_network = outcome.is_network
            ends = {"max_time", "interrupted"} if trial.varies else {"max_time", "interrupted", "max_steps"}
            is_last = outcome.steps >= kept_steps(trial.values, self.record.kept)
            has_decayed = isinstance(job, Slice) and job.steps is not None and job.has_rate and outcome.is_network
            is_past = has_decayed and outcome.best_step < _PAST * outcome.steps
            trial.status = "trained" if outcome.reason in ends and not (is_last or is_past) else "converged"
        self._store()
        if trial.name == _AGAIN:
            again = "trained again on train and dev" if trial.scores else f"not trained again: {trial.note}"
            return self.note(f"{self.record.spent:.0f} of {self.record.seconds:.0f} s: {again}")
        leader = self.record.leader
        tried = sum(one.status != "waiting" for one in self.record.trials)
        first = f"leader: {leader.name}" if leader else "none has a score yet"
        self.note(
            f"{self.record.spent:.0f} of {self.record.seconds:.0f} s: {trial.line()}; {tried} of "
            f"{len(self.record.trials)} tried, {first}"
        )

    def _abandon(self, worker: Worker, trial: Trial, i: int, *, is_late: bool) -> None:
        """Stop a worker that ignores its limit or Ctrl-C. A candidate that has a score keeps it."""
        worker.close()
        if is_late:
            self.workers[i] = Worker()
        if is_late and not trial.scores:
            trial.status, trial.note = "failed", "it needs more time"
        self._store()

    def _store(self) -> None:
        self.record.spent = time.monotonic() - self.began
        self.record.write(self.folder)

    def _do(self, job: Job) -> Outcome:
        """The outcome of one job on the first worker."""
        self.workers[0].start(job)
        outcome = self.workers[0].result()
        assert isinstance(outcome, Outcome)
        return outcome

    # --- the result ---------------------------------------------------------------------------------------------------

    def _conclude(self) -> TrainResult:
        leader = self.record.leader
        if leader is None:
            notes = "; ".join(trial.line() for trial in self.record.trials if trial.note)
            if self.interrupted:
                raise KeyboardInterrupt
            shutil.rmtree(self.folder)  # it holds nothing but this search
            cure = " Pass a longer --max-time." if self.is_late else ""
            raise CatenaError(
                f"No candidate could be trained within {self.record.seconds:.0f} s.{cure} {notes}".strip()
            )
        if not self.interrupted:
            self.record.winner = leader.name
        self._install(leader)
        if self.interrupted:
            self.note(f"interrupted: {leader.name} is the best so far; to continue: catena resume {self.folder}")
            return TrainResult(self.folder, leader.metric, leader.scores, interrupted=True)
        outcome = self._do(Conclusion(self.record.task, self.folder))
        if outcome.reason == "failed":
            raise CatenaError(outcome.lines[0])
        self._store()
        lines = self.record.lines()
        with (self.folder / LOG).open("a", encoding="utf-8", newline="\n") as log:
            log.writelines(f"{line}\n" for line in lines)
        return TrainResult(
            self.folder, leader.metric, leader.scores, outcome.scores, notes=(*outcome.lines, *lines, outcome.next_line)
        )

    def _install(self, leader: Trial) -> None:
        """Make a candidate the run: move its files, or copy them if the search continues later."""
        source = self.folder / TRIALS / (_AGAIN if self.record.refit else leader.name)
        for old in self.folder.iterdir():
            if old.name not in (TRIALS, VECTORS, "search.json"):
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        for item in sorted(source.iterdir(), key=lambda item: item.name == META):  # without meta.json it is not a run
            if not self.interrupted:
                item.rename(self.folder / item.name)
            elif item.is_dir() and not item.is_symlink():
                shutil.copytree(item, self.folder / item.name, symlinks=True)
            else:
                shutil.copy(item, self.folder / item.name, follow_symlinks=False)
        if not self.interrupted:
            shutil.rmtree(self.folder / TRIALS)
        self._store()
