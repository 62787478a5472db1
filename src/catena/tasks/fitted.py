"""Models that need no training loop: counted, or fitted in one call. Stored in a run folder like any other model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from catena.tasks.application import TrainResult
from catena.training.report import LinesReporter, Reporter, ReporterGroup, RunResult, RunStarted, number
from catena.training.run import RunFolder
from catena.training.selection import finite
from catena.training.state import TrainingState


@dataclass(frozen=True)
class FitResult:
    """A finished model and its scores.

    Args:
        scores: scores on dev, by name; empty without a dev set.
        metric: the name of the main score.
        save: writes everything except the tensors into a checkpoint folder.
        tokens: the number of training tokens.
        test: scores on test, if there is a test file.
        tensors: the weights to store.
    """

    scores: dict[str, float]
    metric: str
    save: Callable[[Path], None]
    tokens: int
    test: Mapping[str, float] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


class FitReporter:
    """Reports a fit on the terminal and in the run's log, and saves the result.

    Args:
        lines: a description of the training data, for the start of the report.
    """

    def __init__(self, run: RunFolder, reporter: Reporter, lines: Sequence[str]) -> None:
        self.run, self.reporter = run, ReporterGroup([reporter, LinesReporter(run.log)])
        self.began = time.monotonic()
        self.reporter.started(RunStarted("cpu", 0, 0, tuple(lines), None, 0, run.path))

    def note(self, words: str) -> None:
        """Report one line."""
        self.reporter.note(words)

    def working(self, what: str, share: float) -> None:
        """Report the progress of one piece of work as a fraction."""
        self.reporter.working(what, share)

    def keep(self, fitted: FitResult, what_next: tuple[str, ...] = RunResult.what_next) -> TrainResult:
        """Write the model as the only checkpoint of the run, with its scores, and report the end."""
        run, scores, seconds = self.run, fitted.scores, time.monotonic() - self.began
        state = TrainingState(step=1, tokens=fitted.tokens, seconds=seconds, best_step=1, best_scores=finite(scores))
        run.cut_metrics(0)
        written = run.write(1, dict(fitted.tensors), fitted.save, {}, {"training": state.as_json()})
        run.point_best(1)
        row = {"step": 1, "epoch": 1, "tokens": fitted.tokens, "best": True, "seconds": round(seconds, 3)}
        run.append_metrics({**row, "loss": None, "learning_rate": None, "scores": scores})
        if fitted.test:
            run.append_metrics({"step": 1, "part": "test", **fitted.test})
        if scores:
            self.note("dev: " + ", ".join(f"{name} {number(value)}" for name, value in scores.items()))
        place = written.folder
        self.reporter.finished(
            RunResult("fitted", 1, seconds, fitted.metric, 1, scores, place, place, run.path, what_next)
        )
        self.reporter.close()
        return TrainResult(run.path, fitted.metric, dict(scores), dict(fitted.test))
