"""Folders of small recordings of two synthesized voices, and trained models of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.audio import write_wav
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.sound.task import SoundLmTask
from catena.tasks.runs import load_task, train_run
from catena.training.report import SilentReporter

pytest.importorskip("soundfile")
pytest.importorskip("soxr")

RATE = 2000
SMALL: dict[str, Any] = {
    "kind": "wavenet", "d": 8, "d_skip": 12, "n_layers": 4, "n_blocks": 1, "sample_rate": RATE, "strides": [4, 5],
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "speakers": {"speakers": True, "d_speaker": 4, "drop_speaker": 0.3, "flip": 0.5, "dropout": 0.1},
    "log_mel": {"local": "log_mel", "n_mels": 5, "upsampling": "learned"},
    "series": {"local": "series", "speakers": True, "upsampling": "linear"},
    "mixture": {"distribution": "logistic_mixture", "n_logistics": 3},
    "prediction": {"linear_prediction": [2, 6], "n_logistics": 3, "flip": 0.5},
    "prediction_log_mel": {"linear_prediction": [4], "local": "log_mel", "n_mels": 5, "speakers": True, "d_speaker": 4},
}


def make_voice(pitch: float, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * pitch * np.arange(n) + rng.uniform(0, 6)
    return 0.4 * np.sin(phase) + 0.2 * np.sin(2 * phase + 1) + 0.01 * rng.normal(size=n)


def write_voices(folder: Path, n: int, seed: int = 0) -> None:
    """Recordings of two speakers, of different lengths, each with a series of two features in a file."""
    for i in range(n):
        name, pitch = (("high", 0.11), ("low", 0.05))[i % 2]
        samples = make_voice(pitch, 500 + 130 * (i % 3), seed + i)
        write_wav(folder / name / f"{i}.wav", samples, RATE)
        frames = -(-len(samples) // 20)
        series = np.stack((np.full(frames, pitch), np.linspace(0, 1, frames)), axis=1)
        np.save(folder / name / f"{i}.npy", series)


def make_config(folder: Path, kind: str = "plain", epochs: int = 2, **sections: Any) -> LmConfig:
    training = {"max_epochs": epochs, "patience": 0, "warmup_steps": 0, "learning_rate": 0.01, "ema": 0.9}
    data = {"train": [str(folder)], "dev_fraction": 0.3, **sections.pop("data", {})}
    values = {
        "model": {**SMALL, **KINDS[kind], **sections.pop("model", {})},
        "batches": {"batch_size": 4, "length": 200},
        "machine": {"device": "cpu", "threads": 1},
        "training": {**training, **sections.pop("training", {})},
    }
    return configs.parse(LmConfig, {**values, "data": data, **sections})


@pytest.fixture(scope="session")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voices")
    write_voices(folder, 6)
    return folder


@pytest.fixture(scope="session")
def runs(voices: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        train_run(make_config(voices, kind), root / kind, SilentReporter())
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(scope="session")
def tasks(runs: dict[str, Path]) -> dict[str, SoundLmTask]:
    found = {kind: load_task(folder, "cpu") for kind, folder in runs.items()}
    return {kind: task for kind, task in found.items() if isinstance(task, SoundLmTask)}
