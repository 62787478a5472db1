"""The translation task: train, resume and load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.randomness import Randomness
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks.application import Predictor, TrainResult
from catena.tasks.looped import LoopedApplication, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained
from catena.tasks.translate.auto import fit_to_time
from catena.tasks.translate.config import USUAL, TranslateConfig
from catena.tasks.translate.dataset import TranslateDataset, prepare
from catena.tasks.translate.encoding import PairEncoding
from catena.tasks.translate.predictor import load_predictor
from catena.tasks.translate.scoring import build_metric, missing_packages
from catena.tasks.translate.task import TranslateTask
from catena.training.report import Reporter


class TranslateApplication(LoopedApplication[TranslateConfig, TranslateDataset]):
    """The task ``translate``, p(target sentence | source sentence)."""

    settings = TranslateConfig

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        """Train; use only perplexity if the packages of the default metrics are missing."""
        assert isinstance(config, TranslateConfig)
        own = _scorable(config, reporter.note)
        return super().train(own, folder, reporter, start_from=start_from, overwrite=overwrite, command=command)

    def prepare(
        self, config: TranslateConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> TranslateDataset:
        for name in config.evaluation.metrics if config.evaluation.sentences else ():
            build_metric(name, config.evaluation)  # reports a missing package before training starts
        if old is None:
            return prepare(config)
        check_same_model_kind(old, configs.load(TranslateConfig, old / CONFIG), config)
        return prepare(config, PairEncoding.load(old))

    def dropped(self, data: TranslateDataset) -> ReadCounter:
        return data.tally

    def task(
        self, config: TranslateConfig, data: TranslateDataset, device: torch.device, randomness: Randomness
    ) -> TranslateTask:
        randomness.seed_torch("weights")
        model = build_encoder_decoder(config.model, data.encoding.sides(data.counts))
        return TranslateTask(config, data, model, device, randomness)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, TranslateConfig)
        return fit_to_time(config)

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))


def _scorable(config: TranslateConfig, note: Callable[[str], None]) -> TranslateConfig:
    """The config without the default metrics if their package is missing; metrics set by the user stay."""
    evaluation = config.evaluation
    if not evaluation.sentences or evaluation.metrics != USUAL or config.training.metric in USUAL:
        return config
    lost, line = missing_packages(USUAL, evaluation)
    if not lost:
        return config
    note(f"{line}; perplexity chooses the best checkpoint")
    return config.model_copy(update={"evaluation": evaluation.model_copy(update={"metrics": ()})})
