"""A stepper that never generates an n-gram twice.

The end is always allowed. Ids that were read with ``extend`` count as generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.stepper import Stepper, WrapperStepper

_NOTHING = -1


class NgramHistory(NamedTuple):
    """The inner state and the ids so far, with -1 before shorter rows."""

    inner: Any
    ids: Int[Tensor, "n t"]


class NoRepeatNgram(WrapperStepper[NgramHistory]):
    """p(next | prefix) without the ids that would repeat an n-gram of the prefix (Paulus et al. 2018).

    Args:
        stepper: the model.
        n: size of the n-grams that must not repeat.
    """

    def __init__(self, stepper: Stepper[Any], n: int) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, got {n}. Use the size of the n-grams that must not repeat.")
        self.stepper, self.n = stepper, n
        self.v, self.end = stepper.v, stepper.end

    def start(self, n: int) -> NgramHistory:
        inner = self.stepper.start(n)
        device = self.stepper.log_probs(inner).device
        return NgramHistory(inner, torch.zeros(n, 0, dtype=torch.int64, device=device))

    def inner(self, state: NgramHistory) -> Any:
        return state.inner

    def log_probs(self, state: NgramHistory) -> Float[Tensor, "n v"]:
        log_probs, ids = self.stepper.log_probs(state.inner), state.ids
        if ids.shape[1] < self.n:
            return log_probs
        windows = ids.unfold(1, self.n, 1)  # n, t - n + 1, n
        last = ids[:, ids.shape[1] - self.n + 1 :]
        same = (windows[:, :, :-1] == last[:, None]).all(dim=2) & (windows[:, :, 0] != _NOTHING)
        # Rows without a repetition mark the end, which is unmarked afterwards.
        repeated = torch.where(same & (windows[:, :, -1] != _NOTHING), windows[:, :, -1], self.end)
        gone = torch.zeros_like(log_probs, dtype=torch.bool).scatter(1, repeated, True)
        gone[:, self.end] = False
        return log_probs.masked_fill(gone, NEG_INF)

    def advance(self, state: NgramHistory, ids: Int[Tensor, " n"]) -> NgramHistory:
        return NgramHistory(self.stepper.advance(state.inner, ids), torch.cat((state.ids, ids[:, None]), dim=1))

    def select(self, state: NgramHistory, rows: Int[Tensor, " m"]) -> NgramHistory:
        return NgramHistory(self.stepper.select(state.inner, rows), state.ids[rows])

    def join(self, states: Sequence[NgramHistory]) -> NgramHistory:
        t = max((state.ids.shape[1] for state in states), default=0)
        ids = [pad(state.ids, (t - state.ids.shape[1], 0), value=_NOTHING) for state in states]
        return NgramHistory(self.stepper.join([state.inner for state in states]), torch.cat(ids))
