"""Settings fill in what suits the optimizer, say what does not fit together, and import no torch."""

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

SRC = Path(__file__).parent.parent.parent / "src"


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("sgd", {"learning_rate": 0.1, "momentum": 0.0, "eps": None, "betas": None, "rho": None}),
        ("adam", {"learning_rate": 1e-3, "momentum": None, "eps": 1e-8, "betas": (0.9, 0.999), "rho": None}),
        ("adadelta", {"learning_rate": 1.0, "momentum": None, "eps": 1e-6, "betas": None, "rho": 0.95}),
    ],
)
def test_what_suits_the_optimizer_is_filled_in(optimizer: str, expected: dict[str, Any]) -> None:
    settings = TrainingConfig(optimizer=optimizer)  # type: ignore[arg-type]
    assert {key: getattr(settings, key) for key in expected} == expected
    assert TrainingConfig(optimizer=optimizer, learning_rate=0.3).learning_rate == 0.3  # type: ignore[arg-type]


def test_a_task_can_have_defaults_of_its_own() -> None:
    class Own(TrainingConfig):
        optimizer: Any = "adadelta"
        learning_rate: float | None = 0.7

    assert Own().rho == 0.95
    assert Own().learning_rate == 0.7


def test_twenty_epochs_unless_another_limit_is_set() -> None:
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
def test_the_saved_config_is_the_same_config(settings: TrainingConfig) -> None:
    assert parse(TrainingConfig, tomllib.loads(to_toml(settings))) == settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5H", 5400), ("1d", 86400)],
)
def test_spans_of_time(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert TrainingConfig(max_time=text).max_seconds == seconds


def test_a_number_is_a_span_in_seconds_and_off_is_zero() -> None:
    assert parse(TrainingConfig, {"max_time": 90}).max_seconds == 90
    assert parse(TrainingConfig, {"patience": "none", "clip_norm": "off"}).patience == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_time": "5x"}, r"max_time is '5x', which is no span of time: write it as 90s, 5m, 2h or 1h30m"),
        ({"max_time": "0s"}, r"max_time is '0s', and must be longer than nothing"),
        ({"optimizer": "adam", "momentum": 0.9}, r"momentum is a number of sgd, and optimizer is 'adam'"),
        ({"optimizer": "sgd", "betas": [0.9, 0.99]}, r"betas is a number of adam and adamw"),
        ({"betas": [0.9, 1.0]}, r"betas = \[0\.9, 1\.0\] must lie between 0 and 1"),
        ({"schedule": "cosine", "max_time": "5m"}, r"schedule = 'cosine' needs to know the last step"),
        ({"warmup_steps": 9, "max_steps": 8}, r"warmup_steps = 9 is more than max_steps = 8"),
        (
            {"schedule": "plateau", "patience": 2, "plateau_patience": 2},
            r"patience = 2 ends training before plateau_patience = 2 lowers the learning rate",
        ),
        ({"ema": 0.9, "average_last": 3}, r"ema = 0\.9 and average_last = 3 are two ways to average"),
        (
            {"triggered_average": 2, "average_last": 3},
            "triggered_average = 2 and average_last are two ways to average",
        ),
        ({"triggered_average": 2, "ema": 0.9}, "triggered_average = 2 and ema are two ways to average"),
        ({"triggered_average": 5, "patience": 5}, "ends training before triggered_average = 5 begins"),
        ({"max_norm": 3.0, "max_norm_params": []}, r"max_norm = 3\.0 has no weights to hold for"),
        ({"optimizer": "adma"}, r"did you mean 'adam'"),
        ({"learning_rate": 0}, r"learning_rate is 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(TrainingConfig, values)


def test_settings_import_no_torch() -> None:
    code = "import sys, catena.training.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(SRC)})
