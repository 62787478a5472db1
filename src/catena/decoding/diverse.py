r"""Diverse beam search: groups of beams, each kept from repeating what the groups before it chose.

.. math::  y^g_t = \arg\max \; \log p(y^g_{\le t}) - \lambda \sum_{g' < g} [\,y^g_t \text{ was chosen by } g'\,]

Vijayakumar et al. (2018), with Hamming diversity. The penalty counts in the choice of a step only; hypotheses keep
their log-probabilities. The best hypothesis of each group is returned first. One group is plain beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from catena.decoding.ahead import everything
from catena.decoding.banks import Branching, branching, pick_by_bank
from catena.decoding.beam import Ranking, search
from catena.decoding.hypothesis import Found
from catena.decoding.pick import Picked, likeliest
from catena.decoding.ranking import Normaliser, Stop, at_max_length, by_nothing
from catena.decoding.stepper import Stepper
from catena.errors import ConfigError
from catena.numerics import NEVER


@dataclass(frozen=True)
class PickInGroups:
    """The choice of one step: group after group, each from its own slots."""

    end: int
    width: int
    groups: int
    strength: float

    def __call__(self, ahead: Float[Tensor, "n v"] | Branching, live: Float[Tensor, "b k"]) -> Picked:
        b, k = live.shape
        shared = k < self.groups  # at the first step all groups continue the one prefix
        own = k if shared else k // self.groups
        log_probs = ahead.log_probs if isinstance(ahead, Branching) else ahead
        penalty = log_probs.new_zeros(b, log_probs.shape[1])
        found = []
        for g in range(self.groups):
            first = 0 if shared else g * own
            picked = self._pick(ahead, live, range(first, first + own), penalty)
            chosen = self.strength * (picked.live > NEVER).to(penalty.dtype)
            penalty = penalty.scatter_add(1, picked.ids, chosen)
            parents, ended_parents = picked.parents + first, picked.ended_parents + first
            found.append(picked._replace(parents=parents, ended_parents=ended_parents))
        return _side_by_side(found)

    def _pick(
        self,
        ahead: Float[Tensor, "n v"] | Branching,
        live: Float[Tensor, "b k"],
        slots: range,
        penalty: Float[Tensor, "b v"],
    ) -> Picked:
        """What one group keeps of the continuations of its slots."""
        here, sizes = slice(slots.start, slots.stop), (self.end, self.width // self.groups, penalty)
        if isinstance(ahead, Branching):
            return pick_by_bank(ahead.of_slots(live.shape[1], slots), live[:, here], *sizes)
        return likeliest(ahead.unflatten(0, live.shape)[:, here], live[:, here], *sizes)


def _side_by_side(found: Sequence[Picked]) -> Picked:
    """The slots of all groups, each with as many as the largest group has."""
    most = max(picked.live.shape[1] for picked in found)
    fillers = NEVER, 0, 0

    def filled(x: Tensor, filler: int | float) -> Tensor:
        return torch.nn.functional.pad(x, (0, most - x.shape[1]), value=filler)

    live, parents, ids = (
        torch.cat([filled(picked[i], filler) for picked in found], dim=1) for i, filler in enumerate(fillers)
    )
    return Picked(live, parents, ids, *(torch.cat([picked[i] for picked in found], dim=1) for i in (3, 4)))


@torch.no_grad()
def diverse_beam(
    stepper: Stepper[Any],
    state: Any,
    width: int,
    groups: int,
    max_length: int,
    strength: float = 0.5,
    min_length: int = 0,
    n_best: int = 1,
    normalise: Normaliser = by_nothing,
    coverage: float = 0.0,
    stop: Stop = at_max_length,
) -> Found:
    """The ``n_best`` hypotheses for each prefix of ``state``: the best of each group, then the second best, and so on.

    Those of one turn are sorted by score, so the first one is the best of all. A hypothesis that several groups find is
    returned once, and the other groups give their next best. Finished hypotheses come before those cut off.

    Args:
        width: the slots of all groups together.
        groups: how many groups share them equally.
        strength: λ, what a repeated id costs, in nats.
    """
    if groups < 1 or width < 1 or width % groups:
        raise ConfigError(f"width must be a multiple of groups, but width = {width} and groups = {groups}")
    if not 1 <= n_best <= width:
        raise ConfigError(f"a beam needs 1 <= n_best <= width, but n_best = {n_best} and width = {width}")
    look = branching if stepper.constrained else everything
    pick = PickInGroups(stepper.end, width, groups, strength)
    ranking = Ranking(n_best, normalise, coverage, stop, groups)
    return search(stepper, state, look, pick, max_length, min_length, ranking)
