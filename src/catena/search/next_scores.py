"""Scores of the next ids for searches: log-probabilities of all ids, or only of the top k.

Some models compute the top k without the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.kernels.top_k.ops import largest
from catena.numerics import NEG_INF
from catena.search.stepper import Stepper, check_log_probs

ScoreFn = Callable[[Stepper[Any], Any, bool], Any]
"""Scores the next ids of a state, one row for each of its rows; the flag says whether the end is allowed."""


@dataclass(frozen=True, eq=False, slots=True)
class TopIds:
    """The most probable ids of each row, in descending order."""

    log_probs: Float[Tensor, "n k"]
    ids: Int[Tensor, "n k"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        return self.ids.device

    def spread(self, places: Bool[Tensor, " m"]) -> TopIds:
        """The same for ``m`` rows: these rows where ``places`` is True, no possible id elsewhere."""
        if len(places) == len(self.ids):
            return self
        log_probs = self.log_probs.new_full((len(places), self.ids.shape[1]), NEG_INF)
        ids = self.ids.new_zeros(log_probs.shape)
        log_probs[places], ids[places] = self.log_probs, self.ids
        return TopIds(log_probs, ids)


def top_ids(stepper: Stepper[Any], state: Any, may_end: bool, k: int) -> TopIds:
    """The ``k`` most probable ids, or all if there are fewer."""
    k = min(k, stepper.v)
    return TopIds(*(stepper.top_log_probs(state, k) if may_end else largest(score_all_ids(stepper, state, False), k)))


def score_all_ids(stepper: Stepper[Any], state: Any, may_end: bool) -> Float[Tensor, "n v"]:
    """The log-probabilities of all ids."""
    log_probs = check_log_probs(stepper.log_probs(state), stepper.v)
    return log_probs if may_end else mask_id(log_probs, stepper.end)


def mask_id(log_probs: Float[Tensor, "n v"], id: int) -> Float[Tensor, "n v"]:
    """The same with one id made impossible."""
    return log_probs.index_fill(1, torch.tensor([id], device=log_probs.device), NEG_INF)
