"""Tasks whose model is counted, or fitted in a few large steps, and their training.

They are stored in a run folder like any other model. Tested in tests/tasks/classify/linear and tests/tasks/tag.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from catena.checkpoint import Checkpoint, read_checkpoint
from catena.errors import CheckpointError
from catena.tasks.base import (
    BaseTask,
    C,
    DataParts,
    E,
    EvaluationResult,
    O,
    Origin,
    P,
    Training,
    TrainResult,
    store_test_scores,
)
from catena.tasks.sources import Sources
from catena.training import clock
from catena.training.config import TrainingConfig
from catena.training.report import LinesReporter, Reporter, ReporterGroup, RunResult, RunStarted, number
from catena.training.run import RunFolder
from catena.training.state import TrainingState, finite
from catena.training.stepwise import Learner, StepwiseModel, fit_in_steps

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class FittedTask(BaseTask[C, E, P, O]):
    """A task whose model is counted in one pass."""

    filled_keys: ClassVar[tuple[str, ...]] = ()
    """Keys, or sections with a trailing dot, that fitting sets in the config of the checkpoint."""
    stops_early: ClassVar[bool] = False
    """Whether :meth:`fit` ends with what it has when :meth:`FitReporter.is_time_over`; others need one whole pass."""

    @classmethod
    @abstractmethod
    def fit(cls, config: C, parts: DataParts[E], origin: Origin, progress: FitReporter) -> Self:
        """The model of the training examples."""

    def refit(self, parts: DataParts[E], progress: FitReporter) -> Self:
        """The model to store after this one was scored on dev, such as one that is fitted on dev too."""
        return self

    def n_tokens(self, parts: DataParts[E]) -> int:
        """The number of training tokens, for the report."""
        return len(parts.train)

    @classmethod
    def check_limits(cls, config: Any, limits: Mapping[str, object], folder: Path) -> None:
        extra = {name: value for name, value in limits.items() if not (cls.stops_early and name == "max_time")}
        if extra:
            raise CheckpointError(
                f"{' and '.join(extra)} must be left out for a model of kind {config.model.kind!r}, which is made in "
                f"one pass, got {', '.join(map(str, extra.values()))}. Run 'catena resume {folder}' without them."
            )

    @classmethod
    def prepare(cls, config: C, sources: Sources[E], origin: Origin) -> Training:
        return FitTraining(cls, config, sources, origin)

    @classmethod
    def gather(cls, config: C, sources: Sources[E], origin: Origin) -> tuple[Any, list[str]]:
        """The training, dev and test data, and lines about them for the start of the report."""
        lines, parts = sources.describe(), sources.split()
        return parts, [*lines, sources.counts(parts)]


class SteppedTask(FittedTask[C, E, P, O]):
    """A task whose model is fitted in a few large steps, so that it can be resumed and trained longer."""

    @classmethod
    @abstractmethod
    def start(cls, config: C, parts: DataParts[E], origin: Origin) -> SteppedFit:
        """A model that has taken no step yet."""

    @classmethod
    def check_limits(cls, config: Any, limits: Mapping[str, object], folder: Path) -> None:
        """Allow new limits."""

    @classmethod
    def prepare(cls, config: C, sources: Sources[E], origin: Origin) -> Training:
        return SteppedTraining(cls, config, sources, origin)

    @classmethod
    def fit(cls, config: C, parts: DataParts[E], origin: Origin, progress: FitReporter) -> Self:
        raise NotImplementedError(f"{cls.__name__} is fitted in steps")


class SteppedFit:
    """A model while it is fitted in steps.

    Args:
        learner: takes the steps.
        tokens: number of tokens that one step reads.
        n_parameters: number of parameters.
        lines: lines about the model for the start of the report.
    """

    learner: Learner
    tokens: int
    n_parameters: int
    lines: Sequence[str] = ()

    def task(self) -> FittedTask[Any, Any, Any, Any]:
        """The current model."""
        raise NotImplementedError


class FitReporter:
    """Reports the progress of fitting on the terminal and in the run's log, and knows when its time is over.

    Args:
        run: the run folder.
        reporter: receives the progress.
        max_seconds: the time limit; none if None.
    """

    def __init__(self, run: RunFolder, reporter: Reporter, max_seconds: float | None = None) -> None:
        self.reporter = ReporterGroup([reporter, LinesReporter(run.log)])
        self.max_seconds, self.began = max_seconds, clock.seconds()
        self.stopped = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return clock.seconds() - self.began

    def is_time_over(self) -> bool:
        """Whether the time limit is over, so that fitting ends with what it has."""
        self.stopped = self.max_seconds is not None and self.seconds >= self.max_seconds
        return self.stopped

    def check_time(self, kind: str) -> None:
        """Report that a model of some kind, which is ready now, could not keep the time limit."""
        seconds, limit = self.seconds, self.max_seconds
        if limit is not None and not self.stopped and seconds > limit:
            self.note(
                f"max_time: {limit:g} s were too short: a model of kind {kind!r} is made in one pass, which took "
                f"{seconds:.1f} s and cannot stop with a result"
            )

    def note(self, words: str) -> None:
        """Report one line."""
        self.reporter.note(words)

    def working(self, what: str, fraction: float) -> None:
        """Report the progress of one piece of work as a fraction."""
        self.reporter.working(what, fraction)


class FitTraining(Training):
    """The training of a model that is fitted in one pass."""

    def __init__(self, family: type[FittedTask[Any, E, Any, Any]], config: Any, sources: Sources[E], origin: Origin):
        self.family, self.config, self.origin = family, config, origin
        self.parts, self.lines = family.gather(config, sources, origin)

    def load_weights(self, checkpoint: Checkpoint) -> None:
        raise CheckpointError(
            f"--init-from {checkpoint.folder} needs a network to initialize, but a model of kind "
            f"{self.config.model.kind!r} is always created from scratch. Remove --init-from."
        )

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        progress = FitReporter(run, reporter, self.config.training.max_seconds)
        progress.reporter.started(RunStarted("cpu", 0, 0, tuple(self.lines), None, 0, run.path))
        task = self.family.fit(self.config, self.parts, self.origin, progress)
        began = progress.seconds
        scores = task.evaluate(self.parts.dev).scores() if len(self.parts.dev) else {}
        evaluating = progress.seconds - began if scores else 0.0
        task = task.refit(self.parts, progress)
        test = task.evaluate(self.parts.test).scores() if len(self.parts.test) else {}
        outcome = replace(self._store(task, scores, test, run, progress), evaluation_seconds=evaluating)
        if scores:
            progress.note("dev: " + ", ".join(f"{name} {number(value)}" for name, value in scores.items()))
        progress.check_time(self.config.model.kind)
        progress.reporter.finished(outcome)
        progress.reporter.close()
        return TrainResult(run.path, task.metric, scores, test)

    def resume(self, run: RunFolder, reporter: Reporter) -> TrainResult:
        return self.train(run, reporter)

    def _store(
        self, task: FittedTask[Any, E, Any, Any], scores: dict[str, float], test: dict[str, float], run: RunFolder,
        progress: FitReporter,
    ) -> RunResult:  # fmt: skip
        """Write the model as the only checkpoint of the run, with its scores."""
        seconds, reason = progress.seconds, "max_time" if progress.stopped else "fitted"
        tokens = task.n_tokens(self.parts)
        state = TrainingState(step=1, tokens=tokens, seconds=seconds, best_step=1, best_scores=finite(scores))
        run.cut_metrics(0)
        written = run.write(1, task.tensors(), task.save_all, {}, {"training": state.as_json()})
        run.point_best(1)
        row = {"step": 1, "epoch": 1, "tokens": tokens, "best": True, "seconds": round(seconds, 3)}
        run.append_metrics({**row, "loss": None, "learning_rate": None, "scores": scores})
        if test:
            run.append_metrics({"step": 1, "part": "test", **test})
        place = written.folder
        higher = task.find_metric(task.metric).higher_is_better
        return RunResult(reason, 1, seconds, task.metric, 1, scores, place, place, run.path, task.next_commands, higher)


class SteppedTraining(FitTraining):
    """The training of a model that is fitted in steps."""

    def train(self, run: RunFolder, reporter: Reporter, *, saves_start: bool = False) -> TrainResult:
        family: Any = self.family
        steps = _Steps(self, family.start(self.config, self.parts, self.origin))

        def evaluate(best: Checkpoint) -> EvaluationResult:
            return family.load(self.config, best, "cpu").evaluate(self.parts.test)

        return train_in_steps(steps, self.config.training, run, reporter, evaluate if len(self.parts.test) else None)


def train_in_steps(
    model: StepwiseModel,
    settings: TrainingConfig,
    run: RunFolder,
    reporter: Reporter,
    evaluate: Callable[[Checkpoint], EvaluationResult] | None,
) -> TrainResult:
    """Train a model in steps, and score its best checkpoint on test.

    Args:
        model: the model.
        settings: the training options.
        run: the run folder.
        reporter: receives the progress.
        evaluate: evaluates a checkpoint on test; None if there is no test set.
    """
    outcome, test = fit_in_steps(model, settings, run, reporter), {}
    if evaluate is not None and outcome.best is not None and outcome.best_step is not None and not outcome.interrupted:
        test = store_test_scores(run, outcome.best_step, evaluate(read_checkpoint(outcome.best)).scores())
    return TrainResult(run.path, outcome.metric, outcome.scores, test, outcome.interrupted)


class _Steps(StepwiseModel):
    """A stepped fit as the stepwise loop sees it."""

    def __init__(self, training: SteppedTraining, fit: SteppedFit) -> None:
        self.training, self.fit, self.learner = training, fit, fit.learner
        self.tokens, self.n_parameters = fit.tokens, fit.n_parameters
        self.summary = (*training.lines, *fit.lines)
        first = fit.task()
        self.metric, self.next_commands = first.metric, first.next_commands
        self.higher_is_better = first.find_metric(training.config.training.metric or first.metric).higher_is_better

    def tensors(self) -> Mapping[str, Tensor | np.ndarray]:
        return self.fit.task().tensors()

    def save(self, folder: Path) -> None:
        self.fit.task().save_all(folder)

    def dev_scores(self) -> dict[str, float]:
        return self.fit.task().evaluate(self.training.parts.dev).scores()
