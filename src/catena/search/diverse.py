r"""Diverse beam search: groups of beams, each penalized for ids that earlier groups chose.

.. math::  y^g_t = \arg\max \; \log p(y^g_{\le t}) - \lambda \sum_{g' < g} [\,y^g_t \text{ was chosen by } g'\,]

Vijayakumar et al. (2018), with Hamming diversity. The penalty affects the choice of a step only; hypotheses keep
their log-probabilities. The best hypothesis of each group is returned first. One group is plain beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF
from catena.search.beam_search import Ranking, beam_loop
from catena.search.constraint_banks import Branching, score_branches, select_by_bank
from catena.search.hypothesis import Hypotheses
from catena.search.next_scores import score_all_ids
from catena.search.prompts import Prompt, start_state
from catena.search.ranking import LengthPenalty, Stop, no_length_penalty, stop_at_max_length
from catena.search.selection import BeamStep, select_top
from catena.search.stepper import Stepper


@dataclass(frozen=True)
class PickInGroups:
    """The selection of one step: group after group, each from its own slots."""

    end: int
    width: int
    groups: int
    strength: float

    def __call__(self, ahead: Float[Tensor, "n v"] | Branching, live: Float[Tensor, "b k"]) -> BeamStep:
        b, k = live.shape
        shared = k < self.groups  # at the first step all groups continue the one prefix
        own = k if shared else k // self.groups
        log_probs = ahead.log_probs if isinstance(ahead, Branching) else ahead
        penalty = log_probs.new_zeros(b, log_probs.shape[1])
        found = []
        for g in range(self.groups):
            first = 0 if shared else g * own
            picked = self._pick(ahead, live, range(first, first + own), penalty)
            chosen = self.strength * (picked.live > NEG_INF).to(penalty.dtype)
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
    ) -> BeamStep:
        """The continuations that one group keeps."""
        here, sizes = slice(slots.start, slots.stop), (self.end, self.width // self.groups, penalty)
        if isinstance(ahead, Branching):
            return select_by_bank(ahead.of_slots(live.shape[1], slots), live[:, here], *sizes)
        return select_top(ahead.unflatten(0, live.shape)[:, here], live[:, here], *sizes)


def _side_by_side(found: Sequence[BeamStep]) -> BeamStep:
    """The slots of all groups side by side, each group padded to the largest one."""
    most = max(picked.live.shape[1] for picked in found)
    fillers = NEG_INF, 0, 0

    def filled(x: Tensor, filler: int | float) -> Tensor:
        return torch.nn.functional.pad(x, (0, most - x.shape[1]), value=filler)

    live, parents, ids = (
        torch.cat([filled(picked[i], filler) for picked in found], dim=1) for i, filler in enumerate(fillers)
    )
    return BeamStep(live, parents, ids, *(torch.cat([picked[i] for picked in found], dim=1) for i in (3, 4)))


@torch.no_grad()
def diverse_beam(
    stepper: Stepper[Any],
    state: Any = None,
    beam_size: int = 4,
    groups: int = 2,
    max_length: int = 100,
    strength: float = 0.5,
    min_length: int = 0,
    n_best: int = 1,
    length_penalty: LengthPenalty = no_length_penalty,
    coverage: float = 0.0,
    stop: Stop = stop_at_max_length,
    *,
    prompt: Prompt | None = None,
) -> Hypotheses:
    """The ``n_best`` hypotheses for each prefix of ``state``, the best of each group first.

    Then follows the second best of each group, and so on; each round is sorted by score, so the first one is the best
    of all. A hypothesis that several groups find is returned once, and the other groups return their next best.
    Finished hypotheses come before unfinished ones.

    Args:
        stepper: the model.
        state: a state of ``stepper``, one row for each prefix; that of ``prompt`` if None.
        beam_size: the number of slots of all groups together.
        groups: the number of groups, which have the same number of slots.
        max_length: the maximum number of steps, including the end.
        strength: λ, the penalty of a repeated id, in nats.
        min_length: the minimum number of ids before the end.
        n_best: the number of hypotheses to return for each row, at most ``beam_size``.
        length_penalty: the function of the length that divides the log-probability; see ``ranking``.
        coverage: the factor β of the coverage penalty; needs a stepper with :class:`HasAttention`.
        stop: the rule that ends the search of a row; see ``ranking``.
        prompt: ids that the model reads first, of one prefix or of several; nothing if None.
    """
    state = start_state(stepper, state, prompt)
    if groups < 1 or beam_size < 1 or beam_size % groups:
        raise ConfigError(
            f"beam_size must be a positive multiple of groups = {groups}, got {beam_size}. Change one of them."
        )
    if not 1 <= n_best <= beam_size:
        raise ConfigError(
            f"n_best must be from 1 to beam_size = {beam_size}, got {n_best}. Raise beam_size or change n_best."
        )
    look = score_branches if stepper.constrained else score_all_ids
    pick = PickInGroups(stepper.end, beam_size, groups, strength)
    ranking = Ranking(n_best, length_penalty, coverage, stop, groups)
    return beam_loop(stepper, state, look, pick, max_length, min_length, ranking)
