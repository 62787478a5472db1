"""The feed-forward encoder: the laws of causal encoders, and the formula of Bengio et al. 2003."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from catena.encoders.causal import CausalEncoder
from catena.lm.feed_forward import FeedForward
from tests.laws.causal_laws import SteppingLaws


class TestStepping(SteppingLaws):
    @pytest.fixture(params=[(4, True), (3, False), (1, True)], ids=str)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], CausalEncoder]:
        context, direct = request.param
        return lambda: FeedForward(5, 7, context, direct=direct)


def test_feed_forward_equals_the_formula() -> None:
    encoder = FeedForward(2, 3, 2).double()
    output = nn.Linear(3 + 4, 5).double()
    u, w = output.weight.split((3, 4), dim=1)
    c = torch.randn(4, 2, dtype=torch.float64)
    y = output(encoder(c[None], torch.tensor([4])))[0]
    for t in range(4):
        before = c[t - 1] if t else torch.zeros(2, dtype=torch.float64)
        x = torch.cat((before, c[t]))
        wanted = output.bias + w @ x + u @ torch.tanh(encoder.hidden.bias + encoder.hidden.weight @ x)
        torch.testing.assert_close(y[t], wanted)
