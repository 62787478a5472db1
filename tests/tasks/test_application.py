"""Prediction options: invalid values and combinations are rejected."""

from __future__ import annotations

from typing import Any

import pytest

from catena.errors import ConfigError
from catena.tasks.application import PredictOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_best": 0}, "n_best must be 1 or more, got 0"),
        ({"samples": -1}, "samples must be 0 or more, got -1"),
        ({"beam_size": 0}, "beam_size must be 1 or more, got 0"),
        ({"max_length": 0}, "max_length must be 1 or more, got 0"),
        ({"length_penalty": float("nan")}, "length_penalty must be 0 or more, got nan"),
        ({"samples": 2, "n_best": 2}, "samples = 2 cannot be combined with n_best"),
        ({"samples": 2, "beam_size": 5, "scores": True}, "samples = 2 cannot be combined with beam_size"),
        ({"samples": 2, "length_penalty": 0.0}, "samples = 2 cannot be combined with length_penalty"),
    ],
)
def test_predict_options_with_invalid_values_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PredictOptions(**options)
    assert PredictOptions(n_best=2, beam_size=1, length_penalty=0.0, max_length=1).beyond() == {
        "n_best", "beam_size", "length_penalty", "max_length",
    }  # fmt: skip
