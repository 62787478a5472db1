"""Steppers from functions obey the stepper laws and search as the models they wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from catena.errors import ConfigError, ShapeError
from catena.search import beam, from_logits, from_step, from_table, greedy
from catena.search.stepper import Stepper
from tests.laws.stepper_laws import StepperLaws

V, END = 6, 1


class Recurrent(nn.Module):
    """A small GRU language model, whole or step by step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(V, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, V)
        self.double()

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.gru(self.embed(ids))[0])

    def step(self, ids: Tensor, state: dict[str, tuple[Tensor]]) -> tuple[Tensor, dict[str, tuple[Tensor]]]:
        (h,) = state["h"]
        y, h = self.gru(self.embed(ids)[:, None], h.transpose(0, 1).contiguous())
        return self.out(y[:, 0]), {"h": (h.transpose(0, 1),)}


def cached(model: Recurrent) -> Stepper[Any]:
    return from_step(model.step, {"h": (torch.zeros(1, 1, 8, dtype=torch.float64),)}, v=V, begin=0, end=END)


class TestFromLogits(StepperLaws):
    cpu_only = True

    @pytest.fixture
    def make(self) -> Callable[[], Stepper[Any]]:
        return lambda: from_logits(Recurrent(), v=V, begin=0, end=END)


class TestFromStep(StepperLaws):
    cpu_only = True

    @pytest.fixture
    def make(self) -> Callable[[], Stepper[Any]]:
        return lambda: cached(Recurrent())


def test_whole_and_cached_form_find_the_same_hypotheses() -> None:
    model = Recurrent()
    whole = from_logits(model, v=V, begin=0, end=END)
    found = [
        [(h.ids, pytest.approx(h.log_prob)) for h in beam(one, one.start(1), 4, 6, n_best=4)[0]]
        for one in (whole, cached(model))
    ]
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_from_table_follows_the_rows() -> None:
    table = from_table({(): [0.9, 0.1, 0], (0,): [0, 0.2, 0.8], (1,): [0, 0, 1]}, end=2)
    assert greedy(table, table.start(1), 4)[0][0].ids == (0,)


def test_logits_of_a_wrong_shape_are_rejected() -> None:
    stepper = from_logits(lambda ids: torch.zeros(len(ids), V), v=V, begin=0, end=END)
    with pytest.raises(ShapeError, match="the logits of the model"):
        stepper.log_probs(stepper.start(2))


def test_states_of_unknown_types_are_rejected() -> None:
    stepper = from_step(lambda ids, state: (torch.zeros(len(ids), V), state), "state", v=V, begin=0, end=END)
    with pytest.raises(ConfigError, match=r"init_state must be made of tensors, .* got str"):
        stepper.start(2)
