"""Highway layers: the laws, the formula, and a new layer carries its input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder
from catena.encoders.config import HighwayConfig
from catena.encoders.highway import HighwayLayer
from catena.encoders.layers import build_activation
from tests.laws.encoder_laws import CausalEncoderLaws
from tests.oracle.recurrent import sigmoid


class TestHighway(CausalEncoderLaws):
    @pytest.fixture(params=["coupled", "own"])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        return lambda: build_encoder(HighwayConfig(carry=request.param, activation="tanh"), 5)


@pytest.mark.parametrize("carry", ["coupled", "own"])
def test_highway_layer_equals_the_formula(carry: str) -> None:
    layer = HighwayLayer(4, build_activation("tanh"), carry=carry).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    weight, bias = layer.maps.weight.detach().numpy(), layer.maps.bias.detach().numpy()
    assert len(bias) == (12 if carry == "own" else 8)
    for row, vector in zip(layer(x).detach().numpy(), x.numpy(), strict=True):
        mapped = weight @ vector + bias
        new, transform = np.tanh(mapped[:4]), sigmoid(mapped[4:8])
        kept = sigmoid(mapped[8:]) if carry == "own" else 1 - transform
        np.testing.assert_allclose(row, new * transform + vector * kept, atol=1e-12)


@pytest.mark.parametrize("carry", ["coupled", "own"])
def test_highway_new_layer_carries_its_input(carry: str) -> None:
    layer = HighwayLayer(6, build_activation("relu"), carry=carry, bias=-20.0)
    x = torch.randn(5, 6)
    torch.testing.assert_close(layer(x), x, atol=1e-5, rtol=1e-5)
