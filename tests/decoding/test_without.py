"""Ids that are never written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catena.decoding.sample import sample
from catena.decoding.stepper import Wrapping
from catena.decoding.without import Without
from catena.errors import ConfigError
from tests.decoding.models import random_table
from tests.laws.stepper_laws import StepperLaws


class TestWithout(StepperLaws):
    @pytest.fixture(params=[(), (0,), (0, 2)])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Without]:
        return lambda: Without(random_table(4, 2, 3), request.param)


def test_the_others_share_what_is_left() -> None:
    table = random_table(4, 2, 3)
    p, q = table.log_probs(table.start(1)).exp(), Without(table, [1]).log_probs(table.start(1)).exp()
    assert q[0, 1] == 0
    assert torch.allclose(q[0, [0, 2, 3]], p[0, [0, 2, 3]] / (1 - p[0, 1]))


def test_they_are_never_drawn_and_may_be_read() -> None:
    stepper = Without(random_table(4, 2, 3), [1])
    state = stepper.extend(stepper.start(1), torch.tensor([[1, 1]]), torch.tensor([2]))
    found = sample(stepper, state, torch.Generator().manual_seed(0), 5, n=200)
    assert all(1 not in one.ids for one in found[0])


def test_ids_must_be_there() -> None:
    with pytest.raises(ConfigError, match="must be below 4, and they are \\[4\\]"):
        Without(random_table(4, 2, 3), [4])


def test_its_states_are_those_of_the_inner_stepper() -> None:
    table = random_table(4, 2, 3)
    stepper = Without(table, [1])
    assert isinstance(stepper, Wrapping)
    state = stepper.advance(stepper.start(2), torch.tensor([0, 2]))
    assert torch.equal(table.log_probs(stepper.inner(state)), table.log_probs(state))
