from __future__ import annotations

import pytest
import torch
from torch import nn

from catena.errors import ConfigError
from catena.outputs.build import OUTPUTS, build_output
from catena.outputs.settings import SoftmaxSettings
from catena.outputs.softmax import Softmax


def test_softmax_has_what_its_settings_say() -> None:
    tied = nn.Parameter(torch.randn(4, 3))
    layer = build_output(SoftmaxSettings(bias=False, temperature=2.0), 3, [5, 1, 0, 2], tied=tied, forbidden=[2])
    assert isinstance(layer, Softmax)
    assert (layer.d_in, layer.v, layer.temperature) == (3, 4, 2.0)
    assert layer.scores.weight is tied
    assert layer.scores.bias is None
    assert layer.log_probs(torch.randn(1, 3)).isinf().tolist() == [[False, False, True, False]]


def test_a_layer_needs_a_vocabulary() -> None:
    with pytest.raises(ConfigError, match="counts must have the frequency of each id, but it is empty"):
        build_output(SoftmaxSettings(), 3, [])


def test_the_table_knows_softmax() -> None:
    assert "softmax" in OUTPUTS
