"""What a search asks a stepper before it chooses: the log-probabilities of all ids, or of the likeliest alone, which
some models find without the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.decoding.stepper import Stepper, checked
from catena.kernels.top import largest
from catena.numerics import NEVER

Look = Callable[[Stepper[Any], Any, bool], Any]
"""What is asked of a state, as many rows as it has; whether the end may be chosen is told."""


@dataclass(frozen=True, eq=False, slots=True)
class Nearest:
    """The likeliest ids of each row, in falling order."""

    log_probs: Float[Tensor, "n k"]
    ids: Int[Tensor, "n k"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def device(self) -> torch.device:
        return self.ids.device

    def spread(self, places: Bool[Tensor, " m"]) -> Nearest:
        """The same for ``m`` rows: these at the places that are True, nothing possible at others."""
        log_probs = self.log_probs.new_full((len(places), self.ids.shape[1]), NEVER)
        ids = self.ids.new_zeros(log_probs.shape)
        log_probs[places], ids[places] = self.log_probs, self.ids
        return Nearest(log_probs, ids)


def nearest(stepper: Stepper[Any], state: Any, may_end: bool, k: int) -> Nearest:
    """The ``k`` likeliest ids, or all where there are fewer."""
    k = min(k, stepper.v)
    return Nearest(*(stepper.likeliest(state, k) if may_end else largest(everything(stepper, state, False), k)))


def everything(stepper: Stepper[Any], state: Any, may_end: bool) -> Float[Tensor, "n v"]:
    """The log-probabilities of all ids."""
    log_probs = checked(stepper.log_probs(state), stepper.v)
    return log_probs if may_end else without(log_probs, stepper.end)


def without(log_probs: Float[Tensor, "n v"], id: int) -> Float[Tensor, "n v"]:
    """The same with one id made impossible."""
    return log_probs.index_fill(1, torch.tensor([id], device=log_probs.device), NEVER)
