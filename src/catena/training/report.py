"""Events of a run, reporters that turn them into text, and the clock of a run.

Nothing is printed here: :class:`LinesReporter` passes each line to a function.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from catena.files import escape_controls
from catena.training import clock

if TYPE_CHECKING:
    from catena.training.state import TrainingState

_PROGRESS_EVERY = 0.25
"""Seconds between progress reports. Losses stay on the device until then."""
_SAMPLES = 3
"""Maximum number of predictions shown at each evaluation."""


@dataclass(frozen=True)
class RunStarted:
    """The run starts or resumes."""

    device: str
    parameters: int
    trainable: int
    summary: tuple[str, ...]
    steps: int | None
    """Total number of steps, if known."""
    from_step: int
    """The step from which a run resumes; 0 for a new run."""
    run: Path | None
    unit: str = "tokens"
    """What the speed counts."""


@dataclass(frozen=True)
class Progress:
    """The state of training between evaluations."""

    step: int
    steps: int | None
    epoch: int
    loss: float
    """The mean over the items since the last evaluation."""
    rate: float
    tokens_per_second: float
    seconds_left: float | None


@dataclass(frozen=True)
class EvaluationDone:
    """An evaluation and the progress before it."""

    progress: Progress
    scores: dict[str, float]
    metric: str
    is_best: bool
    samples: tuple[str, ...]


@dataclass(frozen=True)
class RunResult:
    """How a run ended. The task's model has the best weights unless the run was interrupted."""

    reason: str
    """max_steps, max_epochs, max_time, patience, stop_at, interrupted, or fitted if the model trains without steps."""
    steps: int
    seconds: float
    metric: str
    best_step: int | None
    scores: dict[str, float]
    """The scores of the best evaluation; empty if there was none."""
    best: Path | None
    last: Path | None
    run: Path | None
    what_next: tuple[str, ...] = ("evaluate RUN FILE", "predict RUN FILE")
    """Commands to suggest next, with RUN for the run folder."""
    higher_is_better: bool = True
    """Whether higher values of the metric are better."""
    evaluation_seconds: float = 0.0
    """Time of one evaluation on dev."""

    @property
    def interrupted(self) -> bool:
        """Whether the run was interrupted and can be resumed."""
        return self.reason == "interrupted"

    @property
    def score(self) -> float:
        """The best value of the metric; nan if there was no evaluation."""
        return self.scores.get(self.metric, math.nan)


class Reporter(ABC):
    """Receives the events of a run."""

    @abstractmethod
    def started(self, event: RunStarted) -> None:
        """Called before the first step with device, model size and data."""

    @abstractmethod
    def progress(self, event: Progress) -> None:
        """Called every few seconds between evaluations."""

    @abstractmethod
    def evaluated(self, event: EvaluationDone) -> None:
        """Called after the development set was scored."""

    @abstractmethod
    def note(self, words: str) -> None:
        """Called with any other message, such as a damaged checkpoint or a changed number of threads."""

    @abstractmethod
    def finished(self, outcome: RunResult) -> None:
        """Called after the last step with the result."""

    def working(self, what: str, share: float) -> None:
        """Called often with the completed fraction of work without steps, such as counting, for a progress bar."""
        return None

    def close(self) -> None:
        """Called at the end of the run, even if it failed."""
        return None


class SilentReporter(Reporter):
    """Ignores all events."""

    def started(self, event: RunStarted) -> None:
        pass

    def progress(self, event: Progress) -> None:
        pass

    def evaluated(self, event: EvaluationDone) -> None:
        pass

    def note(self, words: str) -> None:
        pass

    def finished(self, outcome: RunResult) -> None:
        pass


class ReporterGroup(Reporter):
    """Forwards events to several reporters."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self.reporters = tuple(reporters)

    def started(self, event: RunStarted) -> None:
        for reporter in self.reporters:
            reporter.started(event)

    def progress(self, event: Progress) -> None:
        for reporter in self.reporters:
            reporter.progress(event)

    def evaluated(self, event: EvaluationDone) -> None:
        for reporter in self.reporters:
            reporter.evaluated(event)

    def note(self, words: str) -> None:
        for reporter in self.reporters:
            reporter.note(words)

    def finished(self, outcome: RunResult) -> None:
        for reporter in self.reporters:
            reporter.finished(outcome)

    def working(self, what: str, share: float) -> None:
        for reporter in self.reporters:
            reporter.working(what, share)

    def close(self) -> None:
        for reporter in self.reporters:
            reporter.close()


class LinesReporter(Reporter):
    """Plain lines: a heading, a table with one row for each evaluation, and the result.

    Args:
        write: called with each line, without the line break.
        progress_every: seconds between rows without scores, for long epochs.
    """

    def __init__(self, write: Callable[[str], None], progress_every: float = 60.0) -> None:
        self.write = lambda line: write(escape_controls(line))  # samples and labels of the data
        self.progress_every = progress_every
        self.table: ProgressTable | None = None
        self.unit = "tokens"
        self.wrote_at = time.monotonic()

    def started(self, event: RunStarted) -> None:
        self.unit = event.unit
        for line in heading(event):
            self.write(line)

    def progress(self, event: Progress) -> None:
        if time.monotonic() - self.wrote_at < self.progress_every:
            return
        self.wrote_at = time.monotonic()
        table = self.table or ProgressTable((), self.unit)
        if self.table is None:
            self.write(table.header())
            self.table = table
        self.write(table.row(event, {}))

    def evaluated(self, event: EvaluationDone) -> None:
        self.wrote_at = time.monotonic()
        names = order_names(event.scores, event.metric)
        if self.table is None or self.table.names != names:
            self.table = ProgressTable(names, self.unit)
            self.write(self.table.header())
        self.write(self.table.row(event.progress, event.scores, event.is_best))
        for line in sample_lines(event.samples):
            self.write(line)

    def note(self, words: str) -> None:
        self.write(words)

    def finished(self, outcome: RunResult) -> None:
        for line in ending(outcome):
            self.write(line)


# --- texts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgressTable:
    """A table of fixed width with a column for each score, the metric first."""

    names: tuple[str, ...]
    unit: str = "tokens"

    def header(self) -> str:
        scores = "".join(f"  {name:>{self._width(name)}}" for name in self.names)
        return f"{'epoch':>7}  {'step':>8}  {'loss':>9}{scores}  {'rate':>9}  {f'{self.unit}/s':>9}  {'left':>7}"

    def row(self, progress: Progress, scores: dict[str, float], is_best: bool = False) -> str:
        cells = "".join(
            f"  {number(scores[name]) if name in scores else '':>{self._width(name)}}" for name in self.names
        )
        return (
            f"{progress.epoch:>7}  {progress.step:>8}  {number(progress.loss):>9}{cells}"
            f"  {progress.rate:>9.2e}  {progress.tokens_per_second:>9,.0f}  {span(progress.seconds_left):>7}"
            f"{' *' if is_best else ''}"
        )

    @staticmethod
    def _width(name: str) -> int:
        return max(8, len(name))


def order_names(scores: dict[str, float], metric: str) -> tuple[str, ...]:
    """The names of the scores with the metric first."""
    return (metric, *(name for name in scores if name != metric))


def heading(event: RunStarted) -> list[str]:
    """The lines before the first step."""
    frozen = event.parameters - event.trainable
    size = f"parameters: {event.parameters:,}" + (f", {frozen:,} of them frozen" if frozen else "")
    lines = [f"device: {event.device}", *([size] if event.parameters else []), *event.summary]
    if event.steps is not None:
        lines.append(f"steps: {event.steps:,} at most")
    if event.run is not None:
        lines.append(f"run: {event.run}")
    if event.from_step:
        lines.append(f"resumed after step {event.from_step:,}")
    return lines


def sample_lines(samples: Sequence[str], width: int = 100) -> list[str]:
    """Up to three predictions, one per line."""
    flat = (" ".join(sample.split()) for sample in samples[:_SAMPLES])
    return [f"    | {text if len(text) <= width else text[: width - 1] + '…'}" for text in flat]


def ending(outcome: RunResult) -> list[str]:
    """The lines at the end: reason, best score, folder, and next commands."""
    reasons = {
        "max_steps": "max_steps reached",
        "max_epochs": "max_epochs reached",
        "max_time": "max_time reached",
        "patience": "no improvement within patience",
        "stop_at": "stop_at reached",
        "interrupted": "interrupted",
    }
    where = f": {outcome.best}" if outcome.best else ""
    if outcome.reason == "fitted":
        score = f"; {outcome.metric} {number(outcome.score)}" if outcome.scores else ""
        lines = [f"done in {span(outcome.seconds)}{score}{where}"]
    else:
        lines = [f"{reasons[outcome.reason]} after step {outcome.steps:,} and {span(outcome.seconds)}"]
        if outcome.best_step is not None:
            lines.append(f"best {outcome.metric} {number(outcome.score)} at step {outcome.best_step:,}{where}")
    if outcome.run is not None and outcome.interrupted:
        lines.append(f"to continue: catena resume {outcome.run}")
    elif outcome.run is not None:
        lines.append(next_line(outcome.run, outcome.what_next))
    return lines


def next_line(run: Path, commands: Sequence[str]) -> str:
    """A line with the commands that use a run."""
    return f"next: {', or '.join(f'catena {words}'.replace('RUN', str(run)) for words in commands)}"


def number(value: float) -> str:
    """A score or a loss in few characters."""
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.4g}"


def span(seconds: float | None) -> str:
    """A duration in few characters: 45s, 3m12s, 2h05m; a dash if it is not known."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


# --- time and speed ---------------------------------------------------------------------------------------------------


class Clock:
    """The time a run has taken, without pauses, and its speed."""

    def __init__(self) -> None:
        self.before = 0.0
        self.began = self.marked = self.told = clock.seconds()
        self.tokens = 0

    def start(self, state: TrainingState) -> None:
        """Continue from the time in a state."""
        self.before = state.seconds
        self.began = self.marked = self.told = clock.seconds()
        self.tokens = state.tokens

    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return self.before + clock.seconds() - self.began

    def mark(self, tokens: int) -> None:
        """Start measuring speed."""
        self.marked, self.tokens = clock.seconds(), tokens

    def speed(self, tokens: int) -> float:
        """Tokens per second since the last mark."""
        return (tokens - self.tokens) / max(clock.seconds() - self.marked, 1e-9)

    def progress_is_due(self) -> bool:
        """Whether it is time to report progress."""
        now = clock.seconds()
        if now - self.told < _PROGRESS_EVERY:
            return False
        self.told = now
        return True
