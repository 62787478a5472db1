"""The recurrent encoder that attends to its own states: the laws, and the formula in plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
import torch

from catena.attention.scores import SCORES
from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder, build_self_attentive_recurrent
from catena.encoders.config import RecurrentConfig, ScoreName, SelfAttentiveRecurrentConfig
from tests.laws.encoder_laws import CausalEncoderLaws, EncoderLaws, sees_the_future
from tests.oracle import attention as oracle


def settings(score: str = "dot", causal: bool = False, bidirectional: bool = False) -> SelfAttentiveRecurrentConfig:
    recurrent = RecurrentConfig(cell="gru", d=4, bidirectional=bidirectional)
    return SelfAttentiveRecurrentConfig(recurrent=recurrent, score=score, causal=causal)


class TestWholeSequence(EncoderLaws):
    @pytest.fixture(params=get_args(ScoreName))
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        return lambda: build_encoder(settings(request.param, bidirectional=True), 5)


class TestCausal(CausalEncoderLaws):
    @pytest.fixture(params=["scaled", "additive"])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Encoder]:
        return lambda: build_encoder(settings(request.param, causal=True), 5)


def test_self_attentive_unidirectional_depends_on_later_positions() -> None:
    assert sees_the_future(build_encoder(settings(), 5).double())


def test_score_names_of_config_and_registry_agree() -> None:
    assert set(get_args(ScoreName)) == set(SCORES)


@pytest.mark.parametrize("causal", [False, True])
def test_self_attentive_equals_the_formula(causal: bool) -> None:
    encoder = build_self_attentive_recurrent(settings(causal=causal), 3).double()
    x, lengths = torch.randn(2, 5, 3, dtype=torch.float64), torch.tensor([5, 3])
    y = encoder(x, lengths).detach().numpy()
    states = encoder.recurrent(x, lengths).detach().numpy()
    weight, bias = encoder.join.weight.detach().numpy(), encoder.join.bias.detach().numpy()
    for i, n in enumerate((5, 3)):
        h = states[i, :n]
        allowed = np.tril(np.ones((n, n), dtype=bool)) if causal else np.ones((n, n), dtype=bool)
        found, _ = oracle.attend(h, h, h, allowed, lambda a, b: float(a @ b))
        wanted = np.tanh(np.hstack((h, found)) @ weight.T + bias)
        np.testing.assert_allclose(y[i, :n], wanted, atol=1e-12)
