"""The state of a run can be saved, and generators are restored."""

from __future__ import annotations

import json

import pytest
import torch

from catena.training.state import TrainingState, preserve_rng, random_states, restore_random_states

CPU = torch.device("cpu")


def test_state_round_trips_through_json() -> None:
    state = TrainingState(step=7, epoch=2, batch=3, loss_sum=0.1 + 0.2, kept={5: 0.25, 7: None})
    state.best_scores = {"accuracy": 0.1, "loss": None}
    assert TrainingState.from_json(json.loads(json.dumps(state.as_json()))) == state


def test_random_states_are_restored() -> None:
    states = random_states(CPU)
    first = torch.rand(5)
    restore_random_states(states, CPU)
    assert torch.equal(torch.rand(5), first)


def test_preserve_rng_restores_generators() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)

    def fails() -> None:
        with preserve_rng(CPU):
            torch.manual_seed(99)
            torch.rand(2)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails()
    assert torch.equal(torch.rand(4), expected)
