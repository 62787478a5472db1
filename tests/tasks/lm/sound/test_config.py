"""The config of language models of recordings: defaults of their own, and wrong values."""

from __future__ import annotations

import pytest

from catena.config import parse
from catena.errors import ConfigError
from catena.tasks.lm.config import LmConfig

WAVENET = {"model": {"kind": "wavenet"}}


def test_recordings_have_batches_and_a_split_of_their_own() -> None:
    config = parse(LmConfig, WAVENET)
    assert (config.batches.batch_size, config.batches.length, config.data.split) == (8, 4000, "random")
    assert (config.training.optimizer, config.training.ema) == ("adamw", 0.999)
    chosen = parse(LmConfig, {**WAVENET, "batches": {"length": 50}, "data": {"split": "end"}})
    assert (chosen.batches.batch_size, chosen.batches.length, chosen.data.split) == (8, 50, "end")
    text = parse(LmConfig, {"model": {"kind": "lstm"}})
    assert (text.batches.batch_size, text.batches.length, text.data.split) == (32, 64, "end")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"training": {"metric": "perplexity"}}, "Unknown training.metric 'perplexity'"),
        ({"objective": {"kind": "masked"}}, "model.kind must be lstm, gru, rnn or transformer if objective.kind"),
        ({"model": {"kind": "wavenet", "strides": []}}, "strides must have at least one factor"),
        ({"model": {"kind": "wavenet", "local": "log_mel", "frame": 1e-5}}, "frame and hop must have at least 2 and 1"),
        ({"model": {"kind": "wavenet", "sample_rate": 10}}, "sample_rate"),
        (
            {"model": {"kind": "wavenet", "linear_prediction": [8, 4, 8]}},
            "linear_prediction must have different orders, got (8, 4, 8). Use 8,4.",
        ),
        (
            {"model": {"kind": "wavenet", "linear_prediction": [8], "distribution": "logistic_mixture"}},
            "distribution must be left out with linear_prediction, got 'logistic_mixture'.",
        ),
        ({"model": {"kind": "wavenet", "linear_prediction": [0]}}, "linear_prediction"),
    ],
)
def test_wrong_values_are_reported(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(LmConfig, {**WAVENET, **values})
    assert sentence in str(error.value)


def test_bits_per_sample_selects_checkpoints() -> None:
    assert parse(LmConfig, {**WAVENET, "training": {"metric": "bits_per_sample"}}).training.metric == "bits_per_sample"
    with pytest.raises(ConfigError, match=r"Unknown training.metric 'bits_per_sample'"):
        parse(LmConfig, {"training": {"metric": "bits_per_sample"}})
