"""Train a language model and score a file with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.data.reading import ReadCounter
from catena.randomness import Randomness
from catena.tasks.base import Origin, TrainResult
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.data import LmData, prepare_text
from catena.tasks.lm.neural import NeuralLmTask
from catena.tasks.lm.predict import LmEvaluation
from catena.tasks.lm.task import LmTask
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.training.report import Reporter, SilentReporter


def train(config: LmConfig, folder: Path, reporter: Reporter | None = None) -> tuple[LmTask, TrainResult]:
    """The trained model as it is loaded from its run, and the result of training."""
    result = train_run(config, folder, reporter or SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, LmTask)
    return task, result


def load_network(folder: Path) -> Any:
    return load_task(folder, "cpu").network


def evaluate_file(task: LmTask, path: Path) -> LmEvaluation:
    return task.evaluate(task.read(task.config, path, ReadCounter()))


def prepare_data(config: LmConfig) -> LmData:
    return prepare_text(config, Sources(LmTask, config))


def prepare_training(config: LmConfig, seed: int = 0) -> NetworkTraining:
    """A new neural model and its data, as ``train_run`` makes them."""
    return NeuralLmTask.prepare(config, Sources(NeuralLmTask, config), Origin(Randomness(seed)))
