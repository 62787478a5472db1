"""The pointer network task: train, resume and load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.randomness import Randomness
from catena.seq2seq.pointer import PointReader, build_pointer
from catena.seq2seq.pointer_config import PointerNetworkConfig
from catena.tasks.application import Predictor
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.point.config import PointConfig
from catena.tasks.point.dataset import FIRST_TOKEN, PointDataset, prepare
from catena.tasks.point.predictor import load_predictor
from catena.tasks.point.task import PointTask, load_encoding
from catena.tasks.pretrained import Pretrained
from catena.training.config import parse_duration

_SHORT = 600.0
"""Training time in seconds below which a smaller network learns more."""


class PointApplication(LoopedApplication[PointConfig, PointDataset]):
    """The task ``point``, whose outputs are positions of the input."""

    settings = PointConfig

    def prepare(
        self, config: PointConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> PointDataset:
        if old is not None:
            check_same_model_kind(old, configs.load(PointConfig, old / CONFIG), config)
        return prepare(config, randomness, load_encoding(old) if old is not None else None)

    def dropped(self, data: PointDataset) -> ReadCounter:
        return data.tally

    def task(self, config: PointConfig, data: PointDataset, device: torch.device, randomness: Randomness) -> NeuralTask:
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
        model, why = PointerNetworkConfig(), "a pointer network with a Transformer of 3 layers of 128 units"
        if parse_duration(config.training.max_time or "5m") < _SHORT:
            model = PointerNetworkConfig(
                d=64,
                encoder=TransformerConfig(d=64, n_heads=4, n_layers=2, d_ff=256, positions="none", dropout=0.0),
                decoder=RecurrentConfig(d=64, bidirectional=False),
            )
            why = "a pointer network with a Transformer of 2 layers of 64 units"
        return config.model_copy(update={"model": model}), [f"chosen: {why}"]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
