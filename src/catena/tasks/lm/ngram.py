"""n-gram models in the task: counted in one go, kept in a run folder like any other model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.lm.base import LanguageModel
from catena.tasks.application import Trained
from catena.tasks.lm.dataset import Dataset
from catena.tasks.lm.encoding import LmEncoding
from catena.tasks.lm.settings import LmConfig
from catena.training.report import Reporter
from catena.training.run import RunFolder


def train_ngram(config: LmConfig, data: Dataset, run: RunFolder, reporter: Reporter) -> Trained:
    """Count and estimate a model, score it on dev and test, and write it as the only checkpoint of a run."""
    raise NotImplementedError


def load_ngram(folder: Path, encoding: LmEncoding) -> LanguageModel[Any]:
    """Read the model of a checkpoint."""
    raise NotImplementedError
