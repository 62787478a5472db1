r"""Diverse beam search: groups of beams, each kept from repeating what the groups before it chose.

.. math::  y^g_t = \arg\max \; \log p(y^g_{\le t}) - \lambda \sum_{g' < g} [\,y^g_t \text{ was chosen by } g'\,]

Vijayakumar et al. (2016), with Hamming diversity. The penalty counts in the choice of a step alone; hypotheses keep
their log-probabilities. One group is plain beam search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from catena.decoding.ahead import everything
from catena.decoding.beam import Picked, Ranking, likeliest, search
from catena.decoding.hypothesis import Found
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

    def __call__(self, rows: Float[Tensor, "n v"], live: Float[Tensor, "b k"]) -> Picked:
        (b, k), v = live.shape, rows.shape[1]
        log_probs = rows.reshape(b, k, v)
        shared = k < self.groups  # at the first step all groups continue the one prefix
        own = k if shared else k // self.groups
        penalty = log_probs.new_zeros(b, v)
        found = []
        for g in range(self.groups):
            first = 0 if shared else g * own
            slots = slice(first, first + own)
            picked = likeliest(log_probs[:, slots], live[:, slots], self.end, self.width // self.groups, penalty)
            chosen = self.strength * (picked.live > NEVER).to(penalty.dtype)
            penalty = penalty.scatter_add(1, picked.ids, chosen)
            parents, ended_parents = picked.parents + first, picked.ended_parents + first
            found.append(picked._replace(parents=parents, ended_parents=ended_parents))
        return Picked(*(torch.cat(parts, dim=1) for parts in zip(*found, strict=True)))


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
    """The ``n_best`` hypotheses of all groups together; the same one may come from several groups and is told once.

    Args:
        width: the slots of all groups together.
        groups: how many groups share them equally.
        strength: λ, what a repeated id costs, in nats.
    """
    if groups < 1 or width < 1 or width % groups:
        raise ConfigError(f"width must be a multiple of groups, but width = {width} and groups = {groups}")
    if not 1 <= n_best <= width:
        raise ConfigError(f"a beam needs 1 <= n_best <= width, but n_best = {n_best} and width = {width}")
    pick = PickInGroups(stepper.end, width, groups, strength)
    return search(stepper, state, everything, pick, max_length, min_length, Ranking(n_best, normalise, coverage, stop))
