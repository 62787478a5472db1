"""Steppers that never generate some ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catena.errors import ConfigError
from catena.search.forbid_ids import ForbidIds
from catena.search.sampling import sample
from catena.search.stepper import WrapperStepper
from tests.laws.stepper_laws import StepperLaws
from tests.search.models import random_table


class TestWithout(StepperLaws):
    @pytest.fixture(params=[(), (0,), (0, 2)])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], ForbidIds]:
        return lambda: ForbidIds(random_table(4, 2, 3), request.param)


def test_forbid_ids_renormalizes_the_others() -> None:
    table = random_table(4, 2, 3)
    p, q = table.log_probs(table.start(1)).exp(), ForbidIds(table, [1]).log_probs(table.start(1)).exp()
    assert q[0, 1] == 0
    assert torch.allclose(q[0, [0, 2, 3]], p[0, [0, 2, 3]] / (1 - p[0, 1]))


def test_forbid_ids_are_never_sampled_but_allowed_in_prompts() -> None:
    stepper = ForbidIds(random_table(4, 2, 3), [1])
    state = stepper.extend(stepper.start(1), torch.tensor([[1, 1]]), torch.tensor([2]))
    found = sample(stepper, state, torch.Generator().manual_seed(0), 5, n=200)
    assert all(1 not in one.ids for one in found[0])


def test_forbid_ids_out_of_range_raises() -> None:
    with pytest.raises(ConfigError, match="ids must be from 0 to 3, got \\[4\\]"):
        ForbidIds(random_table(4, 2, 3), [4])


def test_forbid_ids_uses_the_states_of_the_inner_stepper() -> None:
    table = random_table(4, 2, 3)
    stepper = ForbidIds(table, [1])
    assert isinstance(stepper, WrapperStepper)
    state = stepper.advance(stepper.start(2), torch.tensor([0, 2]))
    assert torch.equal(table.log_probs(stepper.inner(state)), table.log_probs(state))
