"""A stepper that never generates some ids, such as unknown words, and renormalizes over the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.filters import log_normalize
from catena.search.stepper import Stepper, WrapperStepper


class ForbidIds(WrapperStepper[Any]):
    """p(next | prefix, next is not in ``ids``), with the states of the inner stepper. Prompts may contain the ids.

    Args:
        stepper: the model.
        ids: the ids that are never generated.
    """

    def __init__(self, stepper: Stepper[Any], ids: Sequence[int]) -> None:
        self.stepper, self.v, self.end = stepper, stepper.v, stepper.end
        self.ids = sorted(set(ids))
        if self.ids and not 0 <= self.ids[0] <= self.ids[-1] < self.v:
            raise ConfigError(f"ids must be from 0 to {self.v - 1}, got {self.ids[:20]}. Remove the others.")

    def start(self, n: int) -> Any:
        return self.stepper.start(n)

    def inner(self, state: Any) -> Any:
        return state

    def log_probs(self, state: Any) -> Float[Tensor, "n v"]:
        log_probs = self.stepper.log_probs(state)
        gone = torch.tensor(self.ids, dtype=torch.int64, device=log_probs.device)
        return log_normalize(log_probs.index_fill(1, gone, NEG_INF))

    def advance(self, state: Any, ids: Int[Tensor, " n"]) -> Any:
        return self.stepper.advance(state, ids)

    def select(self, state: Any, rows: Int[Tensor, " m"]) -> Any:
        return self.stepper.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        return self.stepper.join(states)

    def extend(self, state: Any, ids: Int[Tensor, "n t"], lengths: Int[Tensor, " n"]) -> Any:
        return self.stepper.extend(state, ids, lengths)
