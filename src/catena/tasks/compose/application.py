"""The task of generating texts from a goal and an agenda: train, resume and load."""

from __future__ import annotations

from pathlib import Path

import torch

from catena import config as configs
from catena.checkpoint import CONFIG
from catena.config import Config
from catena.data.reading import ReadCounter
from catena.randomness import Randomness
from catena.seq2seq.checklist_config import ChecklistConfig
from catena.tasks.application import Predictor
from catena.tasks.compose.config import ComposeConfig
from catena.tasks.compose.dataset import ComposeDataset, prepare
from catena.tasks.compose.encoding import load_encoding
from catena.tasks.compose.model import build_model
from catena.tasks.compose.predictor import load_predictor
from catena.tasks.compose.task import ComposeTask
from catena.tasks.looped import LoopedApplication, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained


class ComposeApplication(LoopedApplication[ComposeConfig, ComposeDataset]):
    """The task ``compose``, p(text | goal, items)."""

    settings = ComposeConfig

    def prepare(
        self, config: ComposeConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> ComposeDataset:
        if old is None:
            return prepare(config)
        check_same_model_kind(old, configs.load(ComposeConfig, old / CONFIG), config)
        return prepare(config, load_encoding(old, config.data.item_words == "telling"))  # style: config value

    def dropped(self, data: ComposeDataset) -> ReadCounter:
        return data.tally

    def task(
        self, config: ComposeConfig, data: ComposeDataset, device: torch.device, randomness: Randomness
    ) -> ComposeTask:
        randomness.seed_torch("weights")
        model = build_model(config, data.encoding, data.counts)
        return ComposeTask(config, data, model, device, randomness)

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ComposeConfig)
        small = ChecklistConfig(d=256, d_embedding=128)
        values = {**config.model_dump(exclude={"model", "training"}), "model": small}
        why = "chosen: a checklist model of 256 units, trained until the time limit"
        return ComposeConfig.model_validate(values), [why]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))
