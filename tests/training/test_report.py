"""Reports: heading, table with a star at each new best, samples, and next commands."""

from __future__ import annotations

import io
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from catena.errors import MissingExtraError
from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.loop import train
from catena.training.progress_bar import BarReporter
from catena.training.report import (
    EvaluationDone,
    LinesReporter,
    Progress,
    ReporterGroup,
    RunResult,
    RunStarted,
    SilentReporter,
    ending,
    number,
    span,
)
from catena.training.task import Evaluation
from catena.training.tensorboard import TensorBoardReporter
from tests.training.tiny import TinyTask

STARTED = RunStarted("cpu (2 threads)", 12_345, 12_000, ("train: 9,596 examples",), 400, 0, Path("runs/mr"))


def progress(step: int, **values: float | None) -> Progress:
    usual = {"loss": 0.5, "rate": 0.001, "tokens_per_second": 25_000.4, "seconds_left": 192.0}
    return Progress(step=step, steps=400, epoch=1, **{**usual, **values})  # type: ignore[arg-type]


def evaluated(step: int, is_best: bool, **scores: float) -> EvaluationDone:
    samples = ("good film -> pos", "bad\nfilm -> neg", "x" * 200, "a fourth")
    return EvaluationDone(progress(step), {"loss": 0.7, "accuracy": 0.5, **scores}, "accuracy", is_best, samples)


def outcome(reason: str) -> RunResult:
    best = Path("runs/mr/checkpoints/step-000192")
    return RunResult(reason, 384, 95.0, "accuracy", 192, {"accuracy": 0.761}, best, best, Path("runs/mr"))


def test_heading_has_device_parameters_data_and_steps() -> None:
    lines: list[str] = []
    LinesReporter(lines.append).started(STARTED)
    assert lines == [
        "device: cpu (2 threads)",
        "parameters: 12,345, 345 of them frozen",
        "train: 9,596 examples",
        "steps: 400 at most",
        "run: runs/mr",
    ]


def test_table_has_fixed_columns_and_star_at_new_best() -> None:
    lines: list[str] = []
    reporter = LinesReporter(lines.append)
    reporter.evaluated(evaluated(192, is_best=True))
    reporter.evaluated(evaluated(384, is_best=False))
    header, first, second = lines[0], lines[1], lines[5]
    assert header.split() == ["epoch", "step", "loss", "accuracy", "loss", "rate", "tokens/s", "left"]
    assert first.split() == ["1", "192", "0.5000", "0.5000", "0.7000", "1.00e-03", "25,000", "3m12s", "*"]
    assert second.split()[-1] == "3m12s"
    assert len(header) == len(second) == len(first) - 2
    for word in ("step", "accuracy", "left"):
        assert first[: header.index(word) + len(word)].split()[-1] != ""
        assert first[header.index(word) + len(word)] == " "


def test_at_most_three_samples_are_shown() -> None:
    lines: list[str] = []
    LinesReporter(lines.append).evaluated(evaluated(1, is_best=True))
    samples = lines[2:]
    assert samples[:2] == ["    | good film -> pos", "    | bad film -> neg"]
    assert len(samples) == 3
    assert len(samples[2]) == 106
    assert samples[2].endswith("…")


def test_long_epochs_show_rows_without_scores() -> None:
    lines: list[str] = []
    reporter = LinesReporter(lines.append, progress_every=0.0)
    reporter.progress(progress(7, loss=math.nan, seconds_left=None))
    assert lines[0].split()[:3] == ["epoch", "step", "loss"]
    assert lines[1].split()[:3] == ["1", "7", "nan"]
    assert lines[1].split()[-1] == "-"
    patient = LinesReporter(pytest.fail, progress_every=60.0)
    patient.progress(progress(7))


@pytest.mark.parametrize(
    ("reason", "first", "last"),
    [
        ("max_epochs", "max_epochs reached after step 384 and 1m35s", "next: catena evaluate runs/mr FILE"),
        ("patience", "no improvement within patience after step 384", "next: catena"),
        ("interrupted", "interrupted after step 384", "to continue: catena resume runs/mr"),
    ],
)
def test_ending_has_reason_best_score_and_next_command(reason: str, first: str, last: str) -> None:
    lines: list[str] = []
    LinesReporter(lines.append).finished(outcome(reason))
    assert lines[0].startswith(first)
    assert lines[1] == "best accuracy 0.7610 at step 192: runs/mr/checkpoints/step-000192"
    assert lines[2].startswith(last)


def test_next_commands_come_from_task() -> None:
    assert ending(replace(outcome("patience"), what_next=("generate RUN",)))[-1] == "next: catena generate runs/mr"


def test_numbers_and_durations_are_short() -> None:
    assert [number(v) for v in (0.12345, 999.0, 123456.0, math.nan)] == ["0.1235", "999.0000", "1.235e+05", "nan"]
    assert [span(s) for s in (None, 0.4, 59.6, 3599.0, 3600.0, 7500.0)] == [
        "-",
        "0s",
        "1m00s",
        "59m59s",
        "1h00m",
        "2h05m",
    ]


def test_reporter_group_forwards_events() -> None:
    one: list[str] = []
    two: list[str] = []
    both = ReporterGroup([LinesReporter(one.append), LinesReporter(two.append), SilentReporter()])
    both.started(STARTED)
    both.progress(progress(1))
    both.evaluated(evaluated(2, is_best=True))
    both.note("a word")
    both.finished(outcome("patience"))
    both.close()
    assert one == two
    assert "a word" in one


def test_bar_shows_table_above_it() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    settings = TrainingConfig(max_epochs=2)
    train(TinyTask(), settings, None, Randomness(0), BarReporter(console))
    bar = BarReporter(console)
    bar.started(STARTED)
    bar.progress(progress(20))
    bar.bar.refresh()
    bar.note("[a note in brackets]")
    bar.close()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("device: cpu", "accuracy", "best accuracy", "step 20 of 400", "3m12s left", "[a note in brackets]"):
        assert words in text


def test_bar_shows_progress_of_work_without_steps() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    reporter = BarReporter(console)
    both = ReporterGroup([SilentReporter(), reporter])
    both.working("reading", 0.5)  # before it begins there is no bar
    both.started(RunStarted("cpu", 0, 0, (), None, 0, None))
    both.working("counting", 0.25)
    (task,) = reporter.bar.tasks
    assert (task.description, task.percentage) == ("counting", 25.0)
    both.close()


def test_failed_run_closes_reporter() -> None:
    closed: list[bool] = []

    class Closing(SilentReporter):
        def close(self) -> None:
            closed.append(True)

    class Broken(TinyTask):
        def evaluate(self) -> Evaluation:
            raise ValueError("broken")

    task = Broken()
    with pytest.raises(ValueError, match="broken"):
        train(task, TrainingConfig(max_steps=1), None, Randomness(0), Closing())
    assert closed == [True]


def test_tensorboard_is_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install tensorboard"):
        TensorBoardReporter(tmp_path)


def test_tensorboard_writes_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reporter = TensorBoardReporter(tmp_path / "curves")
    assert not list(tmp_path.iterdir()), "the run folder must be empty when it is made"
    train(TinyTask(), TrainingConfig(max_epochs=2), None, Randomness(0), reporter)
    events = EventAccumulator(str(tmp_path / "curves"))
    events.Reload()
    assert [event.step for event in events.Scalars("dev/accuracy")] == [6, 12]
    assert {"train/loss", "train/learning_rate"} <= set(events.Tags()["scalars"])
