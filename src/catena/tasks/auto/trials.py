"""Training of candidates in processes of their own, one thread each.

A process serves one job after another, so that torch is imported once. It ends when the process of the search ends.
Tested in tests/tasks/auto/test_trials.py.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from catena.config import parse, read_toml, to_toml
from catena.errors import CatenaError
from catena.files import write_text_atomically
from catena.tasks.auto.table import DataSize, count_examples, merge
from catena.tasks.spec import get_spec
from catena.training import clock
from catena.training.report import RunResult, SilentReporter


@dataclass(frozen=True)
class CountJob:
    """The job of counting the examples of a config."""

    task: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Slice:
    """The job of training a candidate until its training time reaches a limit.

    Args:
        task: the name of the task.
        values: the config values of the candidate.
        folder: its run folder, which is resumed if it exists.
        seconds: the total training time.
        steps: the last step, where the learning rate reaches 0; without it, the rate follows the config.
            Early stopping is off.
        n_evaluations: number of evaluations until the last step.
        command: the command line, stored in the run.
        kept: training options of the user, which no limit replaces; of ``max_steps``, the smaller value counts.
        has_rate: whether the model has a learning rate that can fall.
        threads: CPU threads; as the values say if None.
        start: a run whose best weights are the initial ones.
    """

    task: str
    values: dict[str, Any]
    folder: Path
    seconds: float
    steps: int | None = None
    n_evaluations: int = 1
    command: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    has_rate: bool = True
    threads: int | None = None
    start: Path | None = None


@dataclass(frozen=True)
class Conclusion:
    """The job of scoring the test set with the best checkpoint of a run, and fitting its baselines."""

    task: str
    folder: Path


@dataclass(frozen=True)
class Outcome:
    """What came of a job.

    Args:
        reason: why training stopped, as in :class:`catena.training.report.RunResult`; ``failed`` for an error.
        steps: number of steps so far.
        seconds: training time so far.
        best_step: the step with the best scores on dev.
        scores: the best scores on dev; of a :class:`Conclusion`, the scores on test.
        metric: the score that compares candidates.
        higher_is_better: its direction.
        is_network: whether the model is trained by gradient steps.
        evaluation_seconds: time of one evaluation.
        lines: an error, or lines about the baselines.
        next_line: of a :class:`Conclusion`, the line with the commands that use the run.
        elapsed: time of the whole job in its process, without the start of the process and the compilation of kernels.
    """

    reason: str
    steps: int = 0
    seconds: float = 0.0
    best_step: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    metric: str = ""
    higher_is_better: bool = True
    is_network: bool = False
    evaluation_seconds: float = 0.0
    lines: tuple[str, ...] = ()
    next_line: str = ""
    elapsed: float = 0.0


Job = CountJob | Slice | Conclusion


class Worker:
    """A process that serves jobs."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        with _hidden_main():
            self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.began = 0.0

    def start(self, job: Job) -> None:
        """Start a job. The worker must be idle."""
        self.job, self.began = job, time.monotonic()
        self.connection.send(job)

    def result(self) -> Outcome | DataSize:
        """The result of the job, when :attr:`connection` is ready; a failure if the process has died."""
        self.job = None
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            return Outcome("failed", lines=(f"its process ended with code {self.process.exitcode}",))

    def interrupt(self) -> None:
        """Request that the current job saves its state and stops."""
        if self.job is not None and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.kill()
        self.process.join()


@contextmanager
def _hidden_main() -> Iterator[None]:
    """Keep new processes from importing the user's script, which would start the search again."""
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {
        name: main.__dict__.pop(name) for name in ("__spec__", "__file__") if name in main.__dict__
    }
    main.__dict__["__spec__"] = None
    try:
        yield
    finally:
        main.__dict__.update(hidden)


def _serve(connection: Connection, parent: int) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # training handles it; an idle worker must not die of it
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C reaches the process of the search only, which passes it on once
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    if "OMP_WAIT_POLICY" not in os.environ:  # threads that wait for long must not use the cores of other programs
        # measured on two cores of an EPYC: as fast as the default if idle, 1.6 times if not; asleep 0.65 and 2 times
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    import_module("catena.tasks.neural")  # takes seconds, in which another worker counts the examples
    clock.leave_out_compilation()
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        began = clock.seconds()
        result = run_job(job)
        elapsed = clock.seconds() - began
        connection.send(replace(result, elapsed=elapsed) if isinstance(result, Outcome) else result)


def _end_with(parent: int) -> None:
    """End this process soon after its parent ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def run_job(job: Job) -> Outcome | DataSize:
    """Do a job. Errors of training are outcomes, so that the search continues with other candidates."""
    try:
        if isinstance(job, CountJob):
            return replace(count_examples(job.task, job.values), has_gpu=_has_gpu(job))
        return _train(job) if isinstance(job, Slice) else _conclude(job)
    except CatenaError as error:
        return Outcome("failed", lines=(str(error),))
    except MemoryError:
        return Outcome("failed", lines=("it does not fit into memory",))
    except Exception as error:
        return Outcome("failed", lines=(f"{type(error).__name__}: {error}",))


def _has_gpu(job: CountJob) -> bool:
    from catena.training.device import choose_device

    config: Any = parse(get_spec(job.task).config_class(), job.values)
    return choose_device(config.machine.device).type != "cpu"


def _train(job: Slice) -> Outcome:
    from catena.checkpoint import CONFIG
    from catena.tasks.neural import NeuralTask
    from catena.tasks.runs import resume_run, train_run

    spec, reporter = get_spec(job.task), OutcomeReporter()
    if _can_resume(job):
        resume_run(job.folder, reporter, _limits(job), is_trial=True)
    else:
        training = {**job.values.get("training", {}), **_limits(job)}
        values = _with_threads({**job.values, "training": training}, job.threads)
        config: Any = parse(spec.config_class(), values)
        shutil.rmtree(job.folder, ignore_errors=True)
        train_run(config, job.folder, reporter, init_from=job.start, command=job.command, is_trial=True)
    result = reporter.result
    is_network = issubclass(spec.family(spec.load_config(job.folder / CONFIG)), NeuralTask)
    return Outcome(
        result.reason, result.steps, result.seconds, result.best_step or result.steps, dict(result.scores),
        result.metric, result.higher_is_better, is_network, result.evaluation_seconds,
    )  # fmt: skip


def _limits(job: Slice) -> dict[str, object]:
    limits: dict[str, object] = {"max_time": f"{job.seconds:.1f}s"}
    if job.steps is not None:  # the learning rate falls to 0 at the last step, so patience must not end it before
        steps = min(job.steps, kept_steps(job.values, job.kept))
        every = max(1, math.ceil(steps / job.n_evaluations))
        chosen = {"patience": 0, "eval_every": every, **({"schedule": "linear"} if job.has_rate else {})}
        if steps < job.values.get("training", {}).get("warmup_steps", 0):
            chosen["warmup_steps"] = steps
        limits |= {"max_steps": steps, **{name: value for name, value in chosen.items() if name not in job.kept}}
    return limits


def kept_steps(values: Mapping[str, Any], kept: Collection[str]) -> int:
    """The number of steps that the user allows a candidate."""
    steps = values.get("training", {}).get("max_steps") if "max_steps" in kept else None
    return steps if isinstance(steps, int) else sys.maxsize


def _with_threads(values: Mapping[str, Any], threads: int | None) -> dict[str, Any]:
    """Config values with a number of threads, or unchanged if it is None."""
    return dict(values) if threads is None else merge(values, {"machine": {"threads": threads}})


def _can_resume(job: Slice) -> bool:
    """Whether a trial has a checkpoint. Limits of a slice that was killed before it wrote one are undone."""
    from catena.checkpoint import CONFIG, is_run, last_checkpoint

    try:
        last = last_checkpoint(job.folder) if is_run(job.folder) else None
    except CatenaError:
        return False
    if last is not None:
        values = _with_threads(read_toml(last.folder / CONFIG)[0], job.threads)
        config = parse(get_spec(job.task).config_class(), values)
        write_text_atomically(job.folder / CONFIG, to_toml(config))
    return last is not None


def _conclude(job: Conclusion) -> Outcome:
    from catena.checkpoint import CONFIG
    from catena.tasks.runs import conclude_run
    from catena.training.report import next_line

    spec = get_spec(job.task)
    config: Any = spec.load_config(job.folder / CONFIG)
    result = conclude_run(job.folder, config)
    after = next_line(job.folder, spec.family(config).next_commands)
    return Outcome("concluded", scores=result.test_scores, metric=result.metric, lines=result.notes, next_line=after)


class OutcomeReporter(SilentReporter):
    """Keeps the result of a run and ignores all other events."""

    result: RunResult

    def finished(self, outcome: RunResult) -> None:
        self.result = outcome
