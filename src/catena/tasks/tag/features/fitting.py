"""Training of models in a few large steps, stored in a run folder: scored, saved, stopped and resumed like a network.

The candidate defines what is learned and how it is scored; this module defines when. A step is defined by the learner:
an iteration of L-BFGS, a pass over the sentences, an iteration of EM.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from catena.checkpoint import Checkpoint, read_checkpoint
from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.tasks.application import TrainResult
from catena.tasks.tag.features.learners import FeatureLearner
from catena.training.config import TrainingConfig
from catena.training.interrupt import Interruption
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


class Candidate(ABC):
    """A model during training."""

    tokens: int
    """Number of words that one step reads."""

    @property
    @abstractmethod
    def learner(self) -> FeatureLearner:
        """The learner of its parameters."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """The main score; higher is better."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The current weights to store."""

    @abstractmethod
    def take(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        """Load a stored model from a folder, for :meth:`test_scores`."""

    @abstractmethod
    def dev_scores(self) -> dict[str, float]:
        """The scores of the current model on dev."""

    @abstractmethod
    def test_scores(self) -> dict[str, float]:
        """The scores of the model loaded by :meth:`take` on test; empty without a test file."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything except the tensors into a checkpoint folder."""

    @abstractmethod
    def summary(self) -> tuple[str, ...]:
        """Lines about the data and the model, for the start of the report."""

    @abstractmethod
    def size(self) -> int:
        """The number of parameters."""


def fit(candidate: Candidate, settings: TrainingConfig, run: RunFolder, reporter: Reporter) -> TrainResult:
    """Train from scratch, or from the last complete checkpoint of the run, to the end."""
    return _Fit(candidate, settings, run, reporter).go()


class _Fit:
    def __init__(self, candidate: Candidate, settings: TrainingConfig, run: RunFolder, reporter: Reporter) -> None:
        self.candidate, self.settings, self.run = candidate, settings, run
        self.reporter = ReporterGroup([reporter, LinesReporter(run.log)])
        self.metric = settings.metric or candidate.metric
        self.state = TrainingState()
        self.steps = min((n for n in (settings.max_steps, settings.max_epochs) if n is not None), default=None)
        if candidate.learner.counts:
            self.steps = None
        self.began = time.monotonic()
        self.scored_step = self.saved_step = -1

    def go(self) -> TrainResult:
        last = self.run.last(self.reporter.note)
        if last is not None:
            self._restore(last)
        self.run.cut_metrics(self.state.step)
        self.run.prune(self.state.kept)
        self.began = time.monotonic() - self.state.seconds
        threads = torch.get_num_threads()
        device = f"cpu ({threads} thread{'s' * (threads != 1)})"
        size, lines = self.candidate.size(), self.candidate.summary()
        try:
            self.reporter.started(RunStarted(device, size, size, lines, self.steps, self.state.step, self.run.path))
            with Interruption() as interruption:
                reason = self._steps(interruption)
            test = {} if reason == "interrupted" else self._test()
            outcome = self._outcome(reason)
            self.reporter.finished(outcome)
        finally:
            self.reporter.close()
        return TrainResult(self.run.path, self.metric, outcome.scores, test, outcome.interrupted)

    def _steps(self, interruption: Interruption) -> str:
        state, settings = self.state, self.settings
        reason = self._limit()
        while not reason:
            if not self.candidate.learner.step():
                reason = "fitted"
            else:
                state.step += 1
                state.epoch += 1
                state.tokens += self.candidate.tokens
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
        self.scored_step = state.step
        scores = self.candidate.dev_scores()
        if self.metric not in scores:
            known = did_you_mean(self.metric, scores)
            raise ConfigError(f"training.metric = {self.metric!r} is not a score of this task: {known}")
        best = state.best_scores.get(self.metric)
        is_best = best is None or scores[self.metric] > best
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
        training = {name: torch.from_numpy(np.array(x)) for name, x in self.candidate.learner.arrays().items()}
        numbers = {"training": state.as_json(), "scored": self.scored_step}
        self.run.write(state.step, self.candidate.tensors(), self.candidate.save, training, numbers)
        if state.best_step == state.step:
            self.run.point_best(state.step)
        self.run.prune(state.kept)
        self.saved_step = state.step

    def _restore(self, checkpoint: Checkpoint) -> None:
        numbers = checkpoint.state()
        self.state = TrainingState.from_json(numbers["training"])
        self.candidate.learner.restore({name: tensor.numpy() for name, tensor in checkpoint.training().items()})
        self.saved_step, self.scored_step = self.state.step, int(numbers["scored"])
        self.run.point_back(self.state.step, self.state.best_step)

    def _test(self) -> dict[str, float]:
        """The scores of the best checkpoint on test, stored once."""
        best = self.run.best()
        assert best is not None
        self.candidate.take(read_checkpoint(best).weights(), best)
        test = self.candidate.test_scores()
        row = {"step": self.state.best_step, "part": "test", **test}
        if test and row not in self.run.metrics():
            self.run.append_metrics(row)
        return test

    def _seconds(self) -> float:
        return time.monotonic() - self.began

    def _progress(self) -> Progress:
        state, seconds = self.state, self._seconds()
        each = seconds / max(1, state.step)
        left = None if self.steps is None else each * (self.steps - state.step)
        loss = self.candidate.learner.loss
        return Progress(state.step, self.steps, state.step, loss, 0.0, state.tokens / max(seconds, 1e-9), left)

    def _outcome(self, reason: str) -> RunResult:
        state, run = self.state, self.run
        scores = {name: math.nan if score is None else score for name, score in state.best_scores.items()}
        best_step = state.best_step if state.best_step >= 0 else None
        best = run.best() if best_step is not None else None
        last = run.folder_of(state.step)
        return RunResult(reason, state.step, self._seconds(), self.metric, best_step, scores, best, last, run.path)
