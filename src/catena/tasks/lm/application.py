"""The language modeling task: train, resume and load."""

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
from catena.tasks.application import Predictor, TrainResult
from catena.tasks.lm.auto import fit_to_time
from catena.tasks.lm.config import LmConfig, LmMixtureConfig
from catena.tasks.lm.dataset import LmDataset, prepare
from catena.tasks.lm.encoding import load_encoding
from catena.tasks.lm.mixture import common_encoding, load_predictor, train_mixture
from catena.tasks.lm.model import new_network
from catena.tasks.lm.ngram import train_ngram
from catena.tasks.lm.task import LmTask, MaskedTask, NextTokenTask
from catena.tasks.looped import LoopedApplication, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained
from catena.training.report import Reporter
from catena.training.run import RunFolder


class LmApplication(LoopedApplication[LmConfig, LmDataset]):
    """The task ``lm``, p(next token | previous tokens)."""

    settings = LmConfig

    def prepare(
        self, config: LmConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> LmDataset:
        if isinstance(config.model, LmMixtureConfig):
            return prepare(config, randomness, common_encoding(config))
        if old is None:
            return prepare(config, randomness)
        theirs = configs.load(LmConfig, old / CONFIG)
        check_same_model_kind(old, theirs, config)
        if theirs.objective.kind != config.objective.kind:
            raise CheckpointError(
                f"objective.kind must be {theirs.objective.kind!r}, the objective of the model in {old}, got "
                f"{config.objective.kind!r}. Remove objective.kind."
            )
        return prepare(config, randomness, load_encoding(old, config.data.unit))

    def task(self, config: LmConfig, data: LmDataset, device: torch.device, randomness: Randomness) -> LmTask:
        model = new_network(config, data.encoding.vocabulary, data.counts, randomness)
        if isinstance(model, MaskedLanguageModel):
            return MaskedTask(config, data, model, device, randomness)
        task = NextTokenTask(config, data, model, device, randomness)
        if len(task.epoch(1)) == 0:
            raise DataError("Every training line is longer than data.max_length. Raise it.")
        return task

    def filled_keys(self, config: LmConfig) -> Sequence[str]:
        return ("model.weights", "tokenizer.", "vocabulary.") if isinstance(config.model, LmMixtureConfig) else ()

    def fits(self, config: LmConfig) -> bool:
        return not config.is_neural

    def fit(
        self, config: LmConfig, data: LmDataset, run: RunFolder, randomness: Randomness, reporter: Reporter
    ) -> TrainResult:
        if isinstance(config.model, LmMixtureConfig):
            return train_mixture(config, data, run, reporter)
        return train_ngram(config, data, run, reporter)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, LmConfig)
        return fit_to_time(config)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
