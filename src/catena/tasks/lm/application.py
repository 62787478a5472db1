"""Language models as a whole: train, resume, load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.errors import CheckpointError, DataError
from catena.lm.neural_masked import MaskedLanguageModel
from catena.randomness import Randomness
from catena.tasks.application import Predictor, Trained
from catena.tasks.lm.auto import fit_to_time
from catena.tasks.lm.dataset import Dataset, prepare
from catena.tasks.lm.encoding import load_encoding
from catena.tasks.lm.mixture import encoding_of, load_predictor, train_mixture
from catena.tasks.lm.model import new_network
from catena.tasks.lm.ngram import train_ngram
from catena.tasks.lm.settings import LmConfig, MixtureSettings
from catena.tasks.lm.task import LmTask, MaskedTask, NextTokenTask
from catena.tasks.looped import LoopedApplication, same_make
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained
from catena.training.report import Reporter
from catena.training.run import RunFolder


class LmApplication(LoopedApplication[LmConfig, Dataset]):
    """p(next token | those before it)."""

    settings = LmConfig

    def prepare(self, config: LmConfig, randomness: Randomness, old: Path | None, start: Pretrained | None) -> Dataset:
        if isinstance(config.model, MixtureSettings):
            return prepare(config, randomness, encoding_of(config))
        if old is None:
            return prepare(config, randomness)
        theirs = configs.load(LmConfig, old / CONFIG)
        same_make(old, theirs, config)
        if theirs.objective.kind != config.objective.kind:
            raise CheckpointError(
                f"--from {old} holds a model that was trained for objective.kind = {theirs.objective.kind!r}, not for "
                f"{config.objective.kind!r}: leave objective.kind out to go on with it"
            )
        return prepare(config, randomness, load_encoding(old, config.data.unit))

    def task(self, config: LmConfig, data: Dataset, device: torch.device, randomness: Randomness) -> LmTask:
        model = new_network(config, data.encoding.vocabulary, data.counts, randomness)
        if isinstance(model, MaskedLanguageModel):
            return MaskedTask(config, data, model, device, randomness)
        task = NextTokenTask(config, data, model, device, randomness)
        if len(task.epoch(1)) == 0:
            raise DataError("there is nothing to train on: every line is longer than data.max_length; raise it")
        return task

    def filled_keys(self, config: LmConfig) -> Sequence[str]:
        return ("model.weights", "tokenizer.", "vocabulary.") if isinstance(config.model, MixtureSettings) else ()

    def fits(self, config: LmConfig) -> bool:
        return not config.is_neural

    def fit(
        self, config: LmConfig, data: Dataset, run: RunFolder, randomness: Randomness, reporter: Reporter
    ) -> Trained:
        if isinstance(config.model, MixtureSettings):
            return train_mixture(config, data, run, reporter)
        return train_ngram(config, data, run, reporter)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, LmConfig)
        return fit_to_time(config)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
