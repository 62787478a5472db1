"""A progress bar in the terminal, with the table of evaluations above it. Tested in tests/training/test_report.py."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress

from catena.training.report import (
    EvaluationDone,
    LinesReporter,
    Progress,
    Reporter,
    RunResult,
    RunStarted,
    number,
    span,
)


class BarReporter(Reporter):
    """The output of :class:`LinesReporter`, plus a bar with step, loss, speed and remaining time."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lines = LinesReporter(self._write, progress_every=float("inf"))
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[words]}"),
        )
        self.bar = RichProgress(*columns, console=console, transient=True)
        self.task: TaskID | None = None

    def _write(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def started(self, event: RunStarted) -> None:
        self.lines.started(event)
        self.task = self.bar.add_task("training", total=event.steps, completed=event.from_step, words="")
        self.bar.start()

    def progress(self, event: Progress) -> None:
        if self.task is None:
            return
        words = f"step {event.step:,}" + (f" of {event.steps:,}" if event.steps else "")
        words += f"  loss {number(event.loss)}  {event.tokens_per_second:,.0f} {self.lines.unit}/s"
        words += f"  {span(event.seconds_left)} left"
        self.bar.update(self.task, completed=event.step, words=words, description=f"epoch {event.epoch}")

    def evaluated(self, event: EvaluationDone) -> None:
        self.lines.evaluated(event)
        self.progress(event.progress)

    def note(self, words: str) -> None:
        self.lines.note(words)

    def working(self, what: str, share: float) -> None:
        if self.task is not None:
            self.bar.update(self.task, total=1.0, completed=share, words="", description=what)

    def finished(self, outcome: RunResult) -> None:
        self.bar.stop()
        self.lines.finished(outcome)

    def close(self) -> None:
        self.bar.stop()
