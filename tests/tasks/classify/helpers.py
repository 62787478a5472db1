"""Helpers for the tests of the classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from catena import config as configs
from catena.data.examples import LabeledText
from catena.data.reading import ReadCounter
from catena.randomness import Randomness
from catena.tasks.base import BaseTask, EvaluationResult, Origin
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.data import ClassifyRows, from_lists
from catena.tasks.classify.task import ClassifyTask
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import train_run
from catena.tasks.sources import Sources
from catena.tasks.spec import get_spec
from catena.training.loop import train
from catena.training.report import SilentReporter


def config_of(values: dict[str, Any] | None = None) -> ClassifyConfig:
    return configs.parse(ClassifyConfig, values or {})


def prepared(
    config: ClassifyConfig, given: Mapping[str, Sequence[LabeledText]] | None = None
) -> tuple[Any, ReadCounter]:
    """A new model with the data of a config, or with given examples, and what was read and dropped."""
    family: Any = get_spec("classify").family(config)
    sources = Sources(family, config, given)
    return family.prepare(config, sources, Origin(Randomness(config.seed))), sources.counter


def examples(texts: Sequence[str], labels: Sequence[Any]) -> list[LabeledText]:
    """Texts with one label or a list of labels each."""
    rows = [list(some) if isinstance(some, (list, tuple)) else [str(some)] for some in labels]
    return list(from_lists(texts, rows, "X"))


def task_of(config: ClassifyConfig, texts: Sequence[str], labels: Sequence[Any]) -> Any:
    """A new model with lists as train and dev."""
    some = examples(texts, labels)
    return prepared(config, {"train": some, "dev": some})[0]


def classifier(training: NetworkTraining) -> ClassifyTask:
    assert isinstance(training.task, ClassifyTask)
    return training.task


def logits(training: NetworkTraining, rows: ClassifyRows) -> Tensor:
    """The scores of the classes of some texts."""
    return classifier(training)._logits(rows)


def fit_linear(config: ClassifyConfig, texts: Sequence[str], labels: Sequence[Any], folder: Path) -> dict[str, float]:
    """Train a linear model on lists and return the scores on the same lists."""
    some = examples(texts, labels)
    return train_run(config, folder, SilentReporter(), examples={"train": some, "dev": some}).scores


def fit(
    config: ClassifyConfig, texts: Sequence[str], labels: Sequence[Any]
) -> tuple[NetworkTraining, dict[str, float]]:
    """Train on lists and return the scores on the same lists."""
    training = task_of(config, texts, labels)
    train(training, config.training, None, training.randomness, SilentReporter())
    training.model.eval()
    return training, training.evaluate().scores


def evaluate(task: BaseTask[Any, Any, Any, Any], path: Path | str) -> EvaluationResult:
    """The scores of a model on a file."""
    return task.evaluate(task.read(task.config, Path(path), ReadCounter()))
