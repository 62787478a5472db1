"""Folders of small pictures and sounds, and trained models of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import config as configs
from catena.data.samples.shapes import write_shapes
from catena.data.samples.tones import write_tones
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter

pytest.importorskip("PIL")
pytest.importorskip("soundfile")
pytest.importorskip("soxr")

PICTURES: dict[str, Any] = {
    "kind": "picture",
    "encoder": {"kind": "resnet", "depth": 8, "width": 4},
    "input": {"height": 16, "width": 16},
    "augmentation": {"padding": 1, "flip": 0.5},
}
SOUNDS: dict[str, Any] = {
    "kind": "sound",
    "encoder": {"kind": "convolution", "windows": [3], "filters": 24, "n_layers": 3, "norm": "batch"},
    "augmentation": {"gain": 3, "time_mask": 4},
}
MODELS = {"picture": PICTURES, "sound": SOUNDS}
KINDS = ("picture", "sound")


def make_config(kind: str, folder: Path, epochs: int = 2, **sections: Any) -> ClassifyConfig:
    training = {"max_epochs": epochs, "patience": 0, **sections.pop("training", {})}
    data = {"train": [str(folder)], "dev_fraction": 0.2, **sections.pop("data", {})}
    values = {"model": MODELS[kind], "batches": {"batch_size": 12}, "machine": {"device": "cpu", "threads": 1}}
    return configs.parse(ClassifyConfig, {**values, "data": data, "training": training, **sections})


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("media")
    write_shapes(root / "picture", 40, size=24)
    write_tones(root / "sound", 50, seconds=0.3)
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def runs(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        train_run(make_config(kind, folders[kind], 6), root / kind, SilentReporter())
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def tasks(runs: dict[str, Path]) -> dict[str, Any]:
    return {kind: load_task(runs[kind], "cpu") for kind in KINDS}
