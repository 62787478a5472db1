"""Start states of searches. Tested in tests/search/test_prompts.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from catena.errors import ConfigError
from catena.search.stepper import Stepper

Prompt = Int[Tensor, "..."] | Sequence[int] | Sequence[Sequence[int]]
"""The ids of one prompt, or of several."""


def start_state(stepper: Stepper[Any], state: Any = None, prompt: Prompt | None = None) -> Any:
    """The state that a search starts from.

    Args:
        stepper: the model.
        state: returned as it is if given.
        prompt: ids that the model reads first; several prompts give one row each. An empty prefix if None.
    """
    if state is not None:
        if prompt is not None:
            raise ConfigError("prompt must be None if state is given, got both. Extend the state with stepper.extend.")
        return state
    if prompt is None:
        return stepper.start(1)
    given: list[Any] = prompt.tolist() if isinstance(prompt, Tensor) else list(prompt)
    rows: list[list[int]] = given if given and not isinstance(given[0], int) else [given]
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.int64)
    for i, row in enumerate(rows):
        if wrong := [one for one in row if not 0 <= one < stepper.v]:
            raise ConfigError(f"prompt must contain ids from 0 to {stepper.v - 1}, got {wrong[0]}. Encode it again.")
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
    device = stepper.device or "cpu"
    return stepper.extend(stepper.start(len(rows)), ids.to(device), lengths.to(device))
