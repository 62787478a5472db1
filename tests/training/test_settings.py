"""The training config: defaults of optimizers, invalid combinations, and no torch import."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from catena.config import parse, to_toml
from catena.errors import ConfigError
from catena.training.config import TrainingConfig, parse_duration
from tests.python_path import python_path

SRC = Path(__file__).parent.parent.parent / "src"


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("sgd", {"learning_rate": 0.1, "momentum": 0.0, "eps": None, "betas": None, "rho": None}),
        ("adam", {"learning_rate": 1e-3, "momentum": None, "eps": 1e-8, "betas": (0.9, 0.999), "rho": None}),
        ("adadelta", {"learning_rate": 1.0, "momentum": None, "eps": 1e-6, "betas": None, "rho": 0.95}),
    ],
)
def test_optimizer_defaults_are_filled_in(optimizer: str, expected: dict[str, Any]) -> None:
    settings = TrainingConfig(optimizer=optimizer)  # type: ignore[arg-type]
    assert {key: getattr(settings, key) for key in expected} == expected
    assert TrainingConfig(optimizer=optimizer, learning_rate=0.3).learning_rate == 0.3  # type: ignore[arg-type]


def test_subclass_can_have_other_defaults() -> None:
    class Own(TrainingConfig):
        optimizer: Any = "adadelta"
        learning_rate: float | None = 0.7

    assert Own().rho == 0.95
    assert Own().learning_rate == 0.7


def test_default_limit_is_twenty_epochs() -> None:
    assert TrainingConfig().max_epochs == 20
    assert TrainingConfig(max_steps=5).max_epochs is None
    assert TrainingConfig(max_time="5m").max_epochs is None


@pytest.mark.parametrize(
    "settings",
    [
        TrainingConfig(),
        TrainingConfig(optimizer="sgd", max_time="1h30m", patience=0, clip_norm=0, ema=0.99),
        TrainingConfig(optimizer="adagrad", max_steps=7, max_norm=3.0, max_norm_params=("a.*", "b")),
    ],
)
def test_config_round_trips(settings: TrainingConfig) -> None:
    assert parse(TrainingConfig, tomllib.loads(to_toml(settings))) == settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5H", 5400), ("1d", 86400)],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert TrainingConfig(max_time=text).max_seconds == seconds


def test_max_time_accepts_seconds() -> None:
    assert parse(TrainingConfig, {"max_time": 90}).max_seconds == 90
    assert parse(TrainingConfig, {"patience": "none", "clip_norm": "off"}).patience == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_time": "5x"}, r"max_time must be a duration, got '5x'. Write it as 90s, 5m, 2h or 1h30m"),
        ({"max_time": "0s"}, r"max_time must be above 0, got '0s'"),
        ({"optimizer": "adam", "momentum": 0.9}, r"momentum is an option of sgd, and optimizer is 'adam'"),
        ({"optimizer": "sgd", "betas": [0.9, 0.99]}, r"betas is an option of adam and adamw"),
        ({"betas": [0.9, 1.0]}, r"betas must be at least 0 and below 1, got \[0\.9, 1\.0\]"),
        ({"schedule": "cosine", "max_time": "5m"}, r"schedule = 'cosine' needs the last step"),
        ({"warmup_steps": 9, "max_steps": 8}, r"warmup_steps must be at most max_steps = 8, got 9"),
        (
            {"schedule": "plateau", "patience": 2, "plateau_patience": 2},
            r"patience must be above plateau_patience = 2, got 2",
        ),
        ({"ema": 0.9, "average_last": 3}, r"ema = 0\.9 and average_last = 3 cannot be combined"),
        (
            {"triggered_average": 2, "average_last": 3},
            "triggered_average = 2 and average_last cannot be combined",
        ),
        ({"triggered_average": 2, "ema": 0.9}, "triggered_average = 2 and ema cannot be combined"),
        ({"triggered_average": 5, "patience": 5}, "patience must be above triggered_average = 5, got 5"),
        ({"max_norm": 3.0, "max_norm_params": []}, r"max_norm = 3\.0 applies to no weights"),
        ({"optimizer": "adma"}, r"did you mean 'adam'"),
        ({"learning_rate": 0}, r"learning_rate must be greater than 0, got 0"),
    ],
)
def test_invalid_values_raise_error(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(TrainingConfig, values)


def test_config_does_not_import_torch() -> None:
    code = "import sys, catena.training.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": python_path(SRC)})
