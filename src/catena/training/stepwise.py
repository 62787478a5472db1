"""Training in a few large steps: L-BFGS iterations, passes over the data, EM iterations.

Models are scored, saved, stopped and resumed like a network in the training loop, in the same kind of run folder.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catena.checkpoint import Checkpoint
from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.training import clock
from catena.training.config import TrainingConfig
from catena.training.device import Interruption, count_threads
from catena.training.report import (
    EvaluationDone,
    LinesReporter,
    Progress,
    Reporter,
    ReporterGroup,
    RunResult,
    RunStarted,
)
from catena.training.run import RunFolder
from catena.training.state import TrainingState

if TYPE_CHECKING:
    from torch import Tensor


class Learner(ABC):
    """Parameters that improve step by step."""

    @property
    def counts(self) -> bool:
        """Whether the model is only counted, so that there are no steps."""
        return False

    @property
    @abstractmethod
    def loss(self) -> float:
        """The objective per example, as of the last step."""

    @abstractmethod
    def step(self) -> bool:
        """Take a step. Returns False if the learner has converged, and then changes nothing."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """The state for :meth:`restore`: everything that the next step depends on."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the state that :meth:`arrays` returned."""


class StepwiseModel(ABC):
    """A model during training.

    ``metric`` is the main score, ``tokens`` the number of tokens that one step reads.
    """

    learner: Learner
    metric: str
    higher_is_better: bool = True
    tokens: int
    n_parameters: int
    summary: tuple[str, ...]
    next_commands: tuple[str, ...] = RunResult.what_next

    @abstractmethod
    def tensors(self) -> Mapping[str, Tensor | np.ndarray]:
        """The current weights to store, as tensors, or as arrays if the model does not use torch."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except the tensors into a checkpoint folder."""

    @abstractmethod
    def dev_scores(self) -> dict[str, float]:
        """The scores of the current model on dev."""


def fit_in_steps(model: StepwiseModel, settings: TrainingConfig, run: RunFolder, reporter: Reporter) -> RunResult:
    """Train from scratch, or from the last complete checkpoint of the run, to the end."""
    return _StepwiseLoop(model, settings, run, reporter).run_to_end()


class _StepwiseLoop:
    def __init__(self, model: StepwiseModel, settings: TrainingConfig, run: RunFolder, reporter: Reporter) -> None:
        self.model, self.settings, self.run = model, settings, run
        self.reporter = ReporterGroup([reporter, LinesReporter(run.log)])
        self.metric = settings.metric or model.metric
        self.state = TrainingState()
        limits = (n for n in (settings.max_steps, settings.max_epochs) if n is not None)
        self.steps = None if model.learner.counts else min(limits, default=None)
        self.began = clock.seconds()
        self.scored_step = self.saved_step = -1
        self.evaluation_seconds = 0.0

    def run_to_end(self) -> RunResult:
        last = self.run.last(self.reporter.note)
        if last is not None:
            with last.reading():
                self._restore(last)
        self.run.cut_metrics(self.state.step)
        self.run.prune(self.state.kept)
        self.began = clock.seconds() - self.state.seconds
        threads = count_threads()
        device = f"cpu ({threads} thread{'s' * (threads != 1)})"
        size, lines = self.model.n_parameters, self.model.summary
        try:
            self.reporter.started(RunStarted(device, size, size, lines, self.steps, self.state.step, self.run.path))
            with Interruption() as interruption:
                reason = self._steps(interruption)
            outcome = self._outcome(reason)
            self.reporter.finished(outcome)
        finally:
            self.reporter.close()
        return outcome

    def _steps(self, interruption: Interruption) -> str:
        state, settings = self.state, self.settings
        reason = self._limit()
        while not reason:
            if not self.model.learner.step():
                reason = "fitted"
            else:
                state.step += 1
                state.epoch += 1
                state.tokens += self.model.tokens
                reason = self._limit()
            if reason or state.step % (settings.eval_every or 1) == 0:
                self._evaluate()
                reason = reason or self._limit()
                self._save()
            elif settings.save_every and state.step % settings.save_every == 0:
                self._save()
            else:
                self.reporter.progress(self._progress())
            if interruption.requested and not reason:
                reason = "interrupted"
                self._save()
        return reason

    def _limit(self) -> str:
        state, settings = self.state, self.settings
        if settings.max_steps is not None and state.step >= settings.max_steps:
            return "max_steps"
        if settings.max_epochs is not None and state.step >= settings.max_epochs:
            return "max_epochs"
        if settings.max_seconds is not None and state.step and self._seconds() >= settings.max_seconds:
            return "max_time"
        return "patience" if settings.patience and state.stale >= settings.patience else ""

    def _evaluate(self) -> None:
        state = self.state
        if self.scored_step == state.step:
            return
        self.scored_step, began = state.step, self._seconds()
        scores = self.model.dev_scores()
        self.evaluation_seconds = self._seconds() - began
        if self.metric not in scores:
            known = did_you_mean(self.metric, scores)
            raise ConfigError(f"training.metric = {self.metric!r} is not a score of this task: {known}")
        best = state.best_scores.get(self.metric)
        sign = 1 if self.model.higher_is_better else -1
        is_best = best is None or sign * scores[self.metric] > sign * best
        state.stale = 0 if is_best else state.stale + 1
        state.kept[state.step] = scores[self.metric]
        if is_best:
            state.best_step, state.best_scores = state.step, dict(scores)
        progress = self._progress()
        self.run.append_metrics({
            "step": state.step, "epoch": state.step, "loss": progress.loss, "learning_rate": None,
            "tokens": state.tokens, "scores": scores, "best": is_best, "seconds": round(self._seconds(), 3),
        })  # fmt: skip
        self.reporter.evaluated(EvaluationDone(progress, scores, self.metric, is_best, ()))

    def _save(self) -> None:
        state = self.state
        if self.saved_step == state.step:
            return
        state.seconds = self._seconds()
        state.kept.setdefault(state.step, None)
        state.kept = {step: score for step, score in state.kept.items() if step in (state.step, state.best_step)}
        training = self.model.learner.arrays()
        numbers = {"training": state.as_json(), "scored": self.scored_step}
        self.run.write(state.step, self.model.tensors(), self.model.save, training, numbers)
        if state.best_step == state.step:
            self.run.point_best(state.step)
        self.run.prune(state.kept)
        self.saved_step = state.step

    def _restore(self, checkpoint: Checkpoint) -> None:
        numbers = checkpoint.state()
        self.state = TrainingState.from_json(numbers["training"])
        self.model.learner.restore(checkpoint.training_arrays())
        self.saved_step, self.scored_step = self.state.step, int(numbers["scored"])
        self.run.point_back(self.state.step, self.state.best_step)

    def _seconds(self) -> float:
        return clock.seconds() - self.began

    def _progress(self) -> Progress:
        state, seconds = self.state, self._seconds()
        each = seconds / max(1, state.step)
        left = None if self.steps is None else each * (self.steps - state.step)
        loss = self.model.learner.loss
        return Progress(state.step, self.steps, state.step, loss, 0.0, state.tokens / max(seconds, 1e-9), left)

    def _outcome(self, reason: str) -> RunResult:
        state, run = self.state, self.run
        scores = {name: math.nan if score is None else score for name, score in state.best_scores.items()}
        best_step = state.best_step if state.best_step >= 0 else None
        best = run.best() if best_step is not None else None
        return RunResult(
            reason, state.step, self._seconds(), self.metric, best_step, scores, best, run.folder_of(state.step),
            run.path, self.model.next_commands, self.model.higher_is_better, self.evaluation_seconds,
        )  # fmt: skip
