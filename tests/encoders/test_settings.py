"""Configs of encoders: importable without torch, valid defaults, and errors for wrong values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from catena.config import Config, parse, to_toml
from catena.encoders import config
from catena.encoders.config import EncoderConfig, PoolingConfig, RecurrentConfig
from catena.errors import ConfigError


class Holder(Config):
    """A config with an encoder in it."""

    encoder: EncoderConfig = RecurrentConfig()
    """The encoder."""
    pooling: PoolingConfig = PoolingConfig()
    """The pooling."""


def test_encoder_config_does_not_import_torch() -> None:
    code = "import sys, catena.encoders.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_option_has_a_description() -> None:
    classes = [c for c in vars(config).values() if isinstance(c, type) and issubclass(c, Config)]
    assert len(classes) > 6
    for section in classes:
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name} has no docstring"


def test_every_encoder_kind_is_read_from_a_config() -> None:
    kinds = [get_args(c.model_fields["kind"].annotation)[0] for c in get_args(get_args(EncoderConfig)[0])]
    assert len(kinds) > 0
    for kind in kinds:
        assert parse(Holder, {"encoder": {"kind": kind}}).encoder.kind == kind
        assert kind in to_toml(parse(Holder, {"encoder": {"kind": kind}}))


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"kind": "transformer", "d": 100, "n_heads": 8},
        r"d must be divisible by n_heads = 8, got 100. Use 96 or 104",
    ),
    ({"kind": "transformer", "d": 3, "n_heads": 4}, "Use 4, or another n_heads"),
    (
        {"kind": "transformer", "d": 30, "n_heads": 6, "positions": "rotary"},
        r"d / n_heads must be even for positions = 'rotary', got 30 / 6 = 5. Use d = 36",
    ),
    (
        {"kind": "recurrent", "cell": "lstm", "activation": "relu"},
        "got 'lstm' and activation = 'relu'",
    ),
    (
        {"kind": "recurrent", "cell": "gru", "learn_leak": True},
        "cell must be 'leaky' if learn_leak = true, got 'gru'",
    ),
    (
        {"kind": "recurrent", "cell": "leaky", "learn_leak": True, "leak": 1.0},
        "leak must be below 1 if learn_leak = true, got 1",
    ),
    ({"kind": "recurrent", "cell": "lstn"}, "encoder.cell is 'lstn': did you mean 'lstm'"),
    ({"kind": "recurrent", "leak": 0.0}, "encoder.leak must be greater than 0, got 0.0"),
    ({"kind": "recurrent", "dropout": 1.0}, "encoder.dropout must be less than 1, got 1.0"),
    (
        {"kind": "self_attentive_recurrent", "causal": True},
        "recurrent.bidirectional must be false if causal = true, got true",
    ),
    ({"kind": "convolution", "windows": []}, "encoder.windows .*at least 1 item"),
    ({"kind": "convolution", "windows": [3, 0]}, "greater than 0"),
    ({"kind": "highway", "bias": 1.0}, "encoder.bias must be less than .*0, got 1.0"),
]


@pytest.mark.parametrize(("values", "sentence"), WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_encoder_config_invalid_values_raise(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse(Holder, {"encoder": values})


def test_default_config_of_every_kind_is_valid() -> None:
    adapter = TypeAdapter(EncoderConfig)
    sections = get_args(get_args(EncoderConfig)[0])
    assert sections
    for section in sections:
        assert adapter.validate_python(section().model_dump()) == section()
