"""Pointing as a whole: train, resume, load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.reading import Tally
from catena.encoders.settings import RecurrentSettings, TransformerSettings
from catena.randomness import Randomness
from catena.seq2seq.pointer import PointReader, build_pointer
from catena.seq2seq.pointer_settings import PointerSettings
from catena.tasks.application import Predictor
from catena.tasks.looped import LoopedApplication, TestedTask, same_make
from catena.tasks.machine import choose_device
from catena.tasks.point.dataset import FIRST_TOKEN, Dataset, prepare
from catena.tasks.point.predictor import load_predictor
from catena.tasks.point.settings import PointConfig
from catena.tasks.point.task import PointTask, load_encoding
from catena.tasks.pretrained import Pretrained
from catena.training.settings import seconds_of

SHORT = 600.0
"""Seconds below which a smaller network learns more."""


class PointApplication(LoopedApplication[PointConfig, Dataset]):
    """Positions of the input."""

    settings = PointConfig

    def prepare(
        self, config: PointConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> Dataset:
        if old is not None:
            same_make(old, configs.load(PointConfig, old / CONFIG), config)
        return prepare(config, randomness, load_encoding(old) if old is not None else None)

    def dropped(self, data: Dataset) -> Tally:
        return data.tally

    def task(self, config: PointConfig, data: Dataset, device: torch.device, randomness: Randomness) -> TestedTask:
        randomness.seed_torch("weights")
        encoding = data.encoding
        n_tokens = 0 if encoding.tokens is None else len(encoding.tokens) + FIRST_TOKEN
        model = build_pointer(config.model, data.rule, n_features=encoding.n_features, n_tokens=n_tokens)
        if isinstance(model.reader, PointReader):
            sets = data.train or data.dev
            inside = np.arange(sets.values.shape[1]) < sets.sizes[:, None]
            model.reader.start_at(torch.from_numpy(sets.values[inside]), alike=encoding.problem != "own")
        return PointTask(config, data, model, device, randomness)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, PointConfig)
        model, why = PointerSettings(), "a pointer network with a Transformer of 3 layers of 128 units"
        if seconds_of(config.training.max_time or "5m") < SHORT:
            model = PointerSettings(
                d=64,
                encoder=TransformerSettings(d=64, n_heads=4, n_layers=2, d_feed=256, positions="none", dropout=0.0),
                decoder=RecurrentSettings(d=64, bidirectional=False),
            )
            why = "a pointer network with a Transformer of 2 layers of 64 units"
        return config.model_copy(update={"model": model}), [f"chosen: {why}"]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
