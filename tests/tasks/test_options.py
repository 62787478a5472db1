"""Options of prediction: invalid values and combinations are rejected."""

from __future__ import annotations

from typing import Any

import pytest

from catena import config as configs
from catena.errors import ConfigError
from catena.tasks.options import AttentionOptions, BeamOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_best": 0}, "n_best must be 1 or more, got 0"),
        ({"samples": -1}, "samples must be 0 or more, got -1"),
        ({"beam_size": 0}, "beam_size must be 1 or more, got 0"),
        ({"max_length": 0}, "max_length must be 1 or more, got 0"),
        ({"length_penalty": float("nan")}, "length_penalty must be .*, got nan"),
        ({"samples": 2, "n_best": 2}, "samples = 2 cannot be combined with n_best"),
        ({"samples": 2, "beam_size": 5, "scores": True}, "samples = 2 cannot be combined with beam_size"),
        ({"samples": 2, "length_penalty": 0.0}, "samples = 2 cannot be combined with length_penalty"),
    ],
)
def test_generation_options_with_invalid_values_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configs.parse(BeamOptions, options)


def test_generation_options_of_the_best_outputs_can_be_combined() -> None:
    options = BeamOptions(n_best=2, beam_size=1, length_penalty=0.0, max_length=1)
    assert options.several
    assert not BeamOptions(beam_size=3).several
    assert BeamOptions(samples=1).several
    assert AttentionOptions(layer=1).head is None
