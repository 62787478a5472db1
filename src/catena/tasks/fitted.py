"""Models that no loop trains: counted, or fitted in one go. Kept in a run folder like any other model."""

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
        scores: on dev, by name; none where nothing was held out.
        metric: the name of the score that counts.
        save: writes all but the tensors into a checkpoint folder.
        tokens: tokens that the model was made from.
        test: the scores on test, if there is such a file.
        tensors: what is kept as weights.
    """

    scores: dict[str, float]
    metric: str
    save: Callable[[Path], None]
    tokens: int
    test: Mapping[str, float] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


class FitReporter:
    """Tells of a fit to a person and to the log of its run, and keeps what comes of it.

    Args:
        lines: what the model is made from, for the start of the report.
    """

    def __init__(self, run: RunFolder, reporter: Reporter, lines: Sequence[str]) -> None:
        self.run, self.reporter = run, ReporterGroup([reporter, LinesReporter(run.log)])
        self.began = time.monotonic()
        self.reporter.started(RunStarted("cpu", 0, 0, tuple(lines), None, 0, run.path))

    def note(self, words: str) -> None:
        """Say something of the work or its course."""
        self.reporter.note(words)

    def working(self, what: str, share: float) -> None:
        """Say how far a piece of work is."""
        self.reporter.working(what, share)

    def keep(self, fitted: FitResult, what_next: tuple[str, ...] = RunResult.what_next) -> TrainResult:
        """Write the model as the only checkpoint of the run, with its scores, and tell of the end."""
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
