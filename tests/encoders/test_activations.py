"""Activations compared to their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch

from catena.encoders.config import ActivationName
from catena.encoders.layers import ACTIVATIONS, build_activation
from catena.errors import UnknownNameError

FORMULAS: dict[str, Callable[[float], float]] = {
    "identity": lambda x: x,
    "relu": lambda x: max(0.0, x),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "prelu": lambda x: x if x > 0 else 0.25 * x,
    "abs": abs,
    "hard_tanh": lambda x: max(-1.0, min(1.0, x)),
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)),
    "softplus": lambda x: math.log(1 + math.exp(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "swish": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", list(FORMULAS))
def test_activation_equals_its_formula(name: str) -> None:
    points = [-7.5, -1.2, -0.3, 0.0, 0.4, 1.0, 3.3]
    values = build_activation(name).double()(torch.tensor(points, dtype=torch.float64)).tolist()
    assert values == pytest.approx([FORMULAS[name](x) for x in points], abs=1e-9)


def test_activation_names_of_config_and_registry_agree() -> None:
    assert set(get_args(ActivationName)) == set(ACTIVATIONS) == set(FORMULAS)


def test_prelu_has_a_new_parameter_each_time() -> None:
    first, second = build_activation("prelu"), build_activation("prelu")
    assert [p.tolist() for p in first.parameters()] == [[0.25]]
    assert first is not second


def test_build_activation_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no activation is called 'leaky-relu': did you mean 'leaky_relu'"):
        build_activation("leaky-relu")
