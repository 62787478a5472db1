"""Helpers for the tests of the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from catena import config as configs
from catena.randomness import Randomness
from catena.tasks.classify.application import new_model
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.dataset import from_lists, prepare
from catena.tasks.classify.task import ClassifyTask
from catena.training.loop import train
from catena.training.report import SilentReporter


def config_of(values: dict[str, Any] | None = None) -> ClassifyConfig:
    return configs.parse(ClassifyConfig, values or {})


def task_of(
    config: ClassifyConfig, texts: Sequence[str], labels: Sequence[Any], dev: Sequence[str] | None = None
) -> ClassifyTask:
    """A task on lists. ``dev`` has texts with the same labels; default: the training texts."""
    rows = [list(some) if isinstance(some, (list, tuple)) else [str(some)] for some in labels]
    randomness = Randomness(config.seed)
    sources = {"train": from_lists(texts, rows, "train"), "dev": from_lists(dev or texts, rows, "dev")}
    data = prepare(config, randomness, sources)
    return ClassifyTask(config, data, new_model(config, data, randomness), torch.device("cpu"), randomness)


def fit(config: ClassifyConfig, texts: Sequence[str], labels: Sequence[Any]) -> tuple[ClassifyTask, dict[str, float]]:
    """Train on lists and return the scores on the same lists."""
    task = task_of(config, texts, labels)
    train(task, config.training, None, task.randomness, SilentReporter())
    task.model.eval()
    return task, task.evaluate().scores
