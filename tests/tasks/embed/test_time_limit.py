"""Word vectors with a time limit: they stop with a result, and can be trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena import config as configs
from catena.errors import ConfigError
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.runs import load_task, resume_run, train_run
from catena.training.report import SilentReporter
from tests.vectors.test_train import two_topics


def config(folder: Path, kind: str) -> EmbedConfig:
    text = folder / "text.txt"
    text.write_text("\n".join(map(" ".join, two_topics())) + "\n", encoding="utf-8")
    values = {
        "data": {"train": [str(text)]},
        "words": {"min_count": 1},
        "threads": 1,
        "model": {"kind": kind, "d": 4},
        "training": {"epochs": 50, "max_time": "0.000001s"},
    }
    return configs.parse(EmbedConfig, values)


def test_word_vectors_stop_with_a_result_when_the_time_is_over(tmp_path: Path) -> None:
    train_run(config(tmp_path, "skipgram"), tmp_path / "run", SilentReporter())
    log = (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")
    assert "max_time reached" in log
    assert log.count("epoch_loss") < 50
    assert load_task(tmp_path / "run").predict(["ship"])[0].known
    resume_run(tmp_path / "run", SilentReporter(), {"max_time": "1h"})
    assert "max_epochs reached" in (tmp_path / "run" / "log.txt").read_text(encoding="utf-8")


def test_factor_models_have_no_time_limit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.epochs must not be set for model = 'lsa'"):
        config(tmp_path, "lsa")
