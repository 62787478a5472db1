"""Searches start their steppers themselves, from prompts of any form."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from catena.errors import ConfigError
from catena.search import beam, diverse_beam, greedy, sample, stochastic_beam, stream
from tests.search.models import random_table

TABLE = random_table(5, 3, end=0, seed=8)
SEARCHES = {
    "greedy": lambda **options: greedy(TABLE, max_length=5, **options),
    "beam": lambda **options: beam(TABLE, beam_size=3, max_length=5, n_best=3, **options),
    "diverse": lambda **options: diverse_beam(TABLE, beam_size=4, max_length=5, n_best=4, **options),
    "sample": lambda **options: sample(TABLE, generators=3, max_length=5, n=2, **options),
    "stochastic": lambda **options: stochastic_beam(TABLE, generator=3, n=3, max_length=5, **options),
    "stream": lambda **options: list(stream(TABLE, generators=3, max_length=5, **options)),
}


def state_of(*prompts: list[int]) -> Any:
    """The state after reading prompts one id at a time."""
    states = []
    for prompt in prompts:
        state = TABLE.start(1)
        for one in prompt:
            state = TABLE.advance(state, torch.tensor([one]))
        states.append(state)
    return TABLE.join(states)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(
    ("prompt", "state"),
    [
        (None, state_of([])),
        ([], state_of([])),
        ([2, 3], state_of([2, 3])),
        ([[2, 3], [4], []], state_of([2, 3], [4], [])),
        (torch.tensor([2, 3]), state_of([2, 3])),
        (torch.tensor([[2], [4]]), state_of([2], [4])),
    ],
)
def test_prompt_equals_the_state_after_its_ids(name: str, prompt: Any, state: Any) -> None:
    assert str(SEARCHES[name](prompt=prompt)) == str(SEARCHES[name](state=state))


def test_prompt_and_state_together_are_rejected() -> None:
    with pytest.raises(ConfigError, match="prompt must be None if state is given"):
        greedy(TABLE, TABLE.start(1), prompt=[1])


def test_ids_outside_of_the_vocabulary_are_rejected() -> None:
    with pytest.raises(ConfigError, match="prompt must contain ids from 0 to 4, got 5"):
        greedy(TABLE, prompt=[1, 5])
