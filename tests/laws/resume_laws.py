"""Law of all tasks: a run that is killed at any step and resumed ends in the same state.

    def test_resume(tmp_path):
        killed_anywhere_ends_the_same(make_task, settings, tmp_path, kills=[1, 7, 8])

``make_task`` builds a new task, as a new process would. To use a real process and SIGKILL, run

    python -m tests.laws.resume_laws MODULE RUN [--die-at N]

where the module has ``make_task()`` and ``make_settings()``.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from catena.checkpoint import open_checkpoint
from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.loop import resume, train
from catena.training.report import RunResult, SilentReporter
from catena.training.run import RunFolder, create_run, open_run
from catena.training.task import Batch, BatchLoss, EpochPlan, Evaluation, Task

SEED = 5


class Killed(BaseException):
    """Not an Exception, so that no code of the package can catch it."""


class Doomed(Task):
    """A task that raises ``Killed`` when the loss of batch number ``at``, counted from 1, is computed."""

    def __init__(self, task: Task, at: int, end: Callable[[], None]) -> None:
        self.task, self.at, self.end = task, at, end
        self.asked = 0

    def before_step(self, step: int) -> None:
        self.task.before_step(step)

    def loss(self, batch: Batch) -> BatchLoss:
        self.asked += 1
        if self.asked == self.at:
            self.end()
        return self.task.loss(batch)

    @property
    def model(self) -> nn.Module:
        return self.task.model

    @property
    def metric(self) -> str:
        return self.task.metric

    def higher_is_better(self, metric: str) -> bool:
        return self.task.higher_is_better(metric)

    def epoch(self, number: int) -> EpochPlan:
        return self.task.epoch(number)

    def evaluate(self) -> Evaluation:
        return self.task.evaluate()

    def save(self, folder: Path) -> None:
        self.task.save(folder)

    def describe_batch(self, batch: Batch) -> str:
        return self.task.describe_batch(batch)

    def tensors(self) -> dict[str, Tensor]:
        return self.task.tensors()

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.task.restore(tensors)


def killed_anywhere_ends_the_same(
    make_task: Callable[[], Task], settings: TrainingConfig, folder: Path, kills: Sequence[int]
) -> None:
    """Kill a run before each of these batches, resume it each time, and compare the final states."""
    whole = fresh_run(folder / "whole")
    train(make_task(), settings, whole, Randomness(SEED), SilentReporter())
    assert kills
    for at in kills:
        run = fresh_run(folder / f"killed-at-{at}")
        doomed = Doomed(make_task(), at, die)
        survives(lambda doomed=doomed, run=run: train(doomed, settings, run, Randomness(SEED), SilentReporter()))
        go_on(make_task(), settings, run)
        same_end(whole, run)


def die() -> None:
    raise Killed


def survives(run: Callable[[], Any]) -> None:
    """Run something that is killed before it ends."""
    try:
        run()
    except Killed:
        return
    raise AssertionError("the run ended before it was killed")


def fresh_run(path: Path) -> RunFolder:
    return create_run(path, "", seed=SEED)


def go_on(task: Task, settings: TrainingConfig, run: RunFolder) -> RunResult:
    """Resume a run as a new process would, with the global generator in an arbitrary state."""
    torch.manual_seed(99)
    return resume(task, settings, open_run(run.path), Randomness(SEED), SilentReporter())


def same_end(whole: RunFolder, other: RunFolder) -> None:
    """Check that the last and best weights and all metrics are identical."""
    for name in ("last", "best"):
        one, two = open_checkpoint(whole.path / name), open_checkpoint(other.path / name)
        assert one.folder.name == two.folder.name, f"{name} is of another step"
        same_tensors(one.weights(), two.weights())
        same_tensors(one.training(), two.training())
    assert without_times(whole.metrics()) == without_times(other.metrics())


def same_tensors(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), f"{name} differs"


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def main(module: str, path: str, *rest: str) -> None:
    torch.set_num_threads(1)
    recipe = importlib.import_module(module)
    task = recipe.make_task()
    if rest:
        task = Doomed(task, int(rest[1]), lambda: os.kill(os.getpid(), signal.SIGKILL))
    run = fresh_run(Path(path))
    train(task, recipe.make_settings(), run, Randomness(SEED), SilentReporter())


if __name__ == "__main__":
    main(*sys.argv[1:])
