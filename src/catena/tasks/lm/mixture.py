"""Train and load mixtures of language models; the run folder holds copies of the mixed models.

Each model scores every line separately, as the start of a text.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import to_toml
from catena.errors import ConfigError
from catena.lm.base import AutoregressiveLM
from catena.lm.mixture import CacheModel, LinearMixture, fit_weights
from catena.tasks.application import TrainResult
from catena.tasks.fitted import FitReporter, FitResult
from catena.tasks.lm.config import METRICS, WHAT_NEXT, LmConfig, LmMixtureConfig
from catena.tasks.lm.dataset import LmDataset
from catena.tasks.lm.encoding import LmEncoding, load_encoding
from catena.tasks.lm.ngram import CPU
from catena.tasks.lm.predictor import LmPredictor, build_predictor
from catena.tasks.lm.scoring import judge
from catena.training.report import Reporter
from catena.training.run import RunFolder

PARTS = "parts"


def common_encoding(config: LmConfig) -> LmEncoding:
    """The encoding of the models of a mixture, which must be the same for all.

    Raises:
        ConfigError: if the tokenizers, vocabularies or ``data.unit`` differ.
    """
    assert isinstance(config.model, LmMixtureConfig)
    folders = [open_checkpoint(Path(run)).folder for run in config.model.runs]
    first = configs.load(LmConfig, folders[0] / CONFIG)
    if first.data.unit != config.data.unit:
        raise ConfigError(
            f"data.unit must be {first.data.unit!r}, as in {config.model.runs[0]}, got {config.data.unit!r}. Set "
            f"data.unit to {first.data.unit!r}."
        )
    encodings = [load_encoding(folder, config.data.unit) for folder in folders]
    for run, encoding in zip(config.model.runs, encodings, strict=True):
        if (
            encoding.vocabulary.symbols != encodings[0].vocabulary.symbols
            or encoding.tokenizer.settings != encodings[0].tokenizer.settings
        ):
            raise ConfigError(
                f"The models of a mixture need the same tokenizer and vocabulary; {run} with "
                f"{len(encoding.vocabulary):,} symbols differs from {config.model.runs[0]}. Train both on the same "
                f"text with the same tokenizer and vocabulary options."
            )
    return encodings[0]


def train_mixture(config: LmConfig, data: LmDataset, run: RunFolder, reporter: Reporter) -> TrainResult:
    """Fit the mixture weights on train, evaluate on dev and test, and save the run."""
    assert isinstance(config.model, LmMixtureConfig)
    settings, fitting = config.model, FitReporter(run, reporter, data.lines)
    folders = [open_checkpoint(Path(one)).folder for one in settings.runs]
    models = _models(folders, data.encoding, settings)
    config = _spelled_out(config, folders[0])
    weights = settings.weights
    if not weights:
        each = [torch.from_numpy(judge(model, data.train, config, CPU).log_probs) for model in models]
        weights = fit_weights(torch.stack(each)).weights
    names = [*settings.runs, *(["cache"] if settings.cache else [])]
    fitting.note("weights: " + ", ".join(f"{name} {weight:.4f}" for name, weight in zip(names, weights, strict=True)))
    model = LinearMixture(models, weights)
    scores = judge(model, data.dev, config, CPU).scores()
    test = judge(model, data.test, config, CPU).scores() if data.test is not None else {}
    kept = config.model_copy(update={"model": settings.model_copy(update={"weights": tuple(weights)})})

    def save(folder: Path) -> None:
        (folder / CONFIG).write_text(to_toml(kept), encoding="utf-8")
        data.encoding.save(folder)
        for i, part in enumerate(folders):
            shutil.copytree(part, folder / PARTS / str(i))

    return fitting.keep(FitResult(scores, METRICS[0], save, data.train.tokens, test), WHAT_NEXT)


def load_predictor(folder: Path, device: torch.device) -> LmPredictor:
    """Load a trained language model of any kind from a run folder or checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(LmConfig, checkpoint.folder / CONFIG)
    if not isinstance(config.model, LmMixtureConfig):
        return build_predictor(checkpoint, config, device)
    encoding = load_encoding(checkpoint.folder, config.data.unit)
    parts = [checkpoint.folder / PARTS / str(i) for i in range(len(config.model.runs))]
    models = _models(parts, encoding, config.model)
    return LmPredictor(config, encoding, LinearMixture(models, config.model.weights), CPU)


def _models(folders: list[Path], encoding: LmEncoding, settings: LmMixtureConfig) -> list[AutoregressiveLM[Any]]:
    models: list[AutoregressiveLM[Any]] = [load_predictor(folder, CPU).stepper for folder in folders]
    if settings.cache:
        models.append(CacheModel(encoding.vocabulary, settings.cache, settings.cache_decay))
    return models


def _spelled_out(config: LmConfig, first: Path) -> LmConfig:
    """The config with the tokenizer and vocabulary options of the mixed models."""
    theirs = configs.load(LmConfig, first / CONFIG)
    return config.model_copy(update={"tokenizer": theirs.tokenizer, "vocabulary": theirs.vocabulary})
