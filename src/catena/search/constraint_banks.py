"""Beams over a constraint: slots are reserved for prefixes that are closer to satisfying it.

Ranked by log-probability only, all slots go to prefixes that postpone a required word until the length limit forces
it. So candidates are grouped by how many ids the constraint still requires after them. The most probable ones get slots
as in a plain beam, and as many slots again go to the groups in turn, which is dynamic beam allocation (Post & Vilar
2018) for any acceptor.

Candidates that require more ids and are less probable than closer ones need no slots of their own: they belong to the
group of the closer ones. So a constraint that requires nothing, such as a list of excluded phrases, is searched by a
plain beam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.kernels.top_k.ops import largest
from catena.numerics import NEG_INF
from catena.search.next_scores import score_all_ids
from catena.search.selection import BeamStep
from catena.search.stepper import Branch, Stepper


@dataclass(frozen=True, eq=False, slots=True)
class Branching:
    """The log-probabilities of all next ids, and how many ids the constraint requires after each of them."""

    log_probs: Float[Tensor, "n v"]
    branches: list[Branch]

    def __len__(self) -> int:
        return len(self.log_probs)

    @property
    def device(self) -> torch.device:
        return self.log_probs.device

    def of_slots(self, k: int, slots: range) -> Branching:
        """The same for some of the ``k`` slots of each batch row."""
        branches = []
        for rows, ids, remaining in self.branches:
            slot = rows % k
            here = (slot >= slots.start) & (slot < slots.stop)
            branches.append(Branch((rows // k * len(slots) + slot - slots.start)[here], ids, remaining[here]))
        log_probs = self.log_probs.unflatten(0, (-1, k))[:, slots.start : slots.stop]
        return Branching(log_probs.flatten(0, 1), branches)


def score_branches(stepper: Stepper[Any], state: Any, may_end: bool) -> Branching:
    """The next ids of a constrained stepper."""
    log_probs = score_all_ids(stepper, state, may_end)
    branches = [Branch(*(part.to(log_probs.device) for part in branch)) for branch in stepper.branches(state)]
    return Branching(log_probs, branches)


class BranchCandidates(NamedTuple):
    """Continuations of all slots, the end not among them."""

    ranked: Float[Tensor, " c"]
    """Cumulative log-probability, less the penalty of the id."""
    rows: Int[Tensor, " c"]
    """``k`` times the batch row, plus the slot."""
    ids: Int[Tensor, " c"]
    remaining: Int[Tensor, " c"]


def select_by_bank(
    ahead: Branching, live: Float[Tensor, "b k"], end: int, width: int, penalty: Float[Tensor, "b v"] | None = None
) -> BeamStep:
    """The continuations that get a slot, and those that end.

    In each batch row ``width`` slots go to the most probable candidates. Where the constraint still requires something,
    as many again go to the groups in turn, the closest first, or more if a group would not get any. A ``penalty`` of
    ids counts in the ranking only.
    """
    b, k = live.shape
    found = _candidates(ahead, live, width, penalty)
    batch = found.rows // k
    group, requires = _groups(found, batch, b)
    most = len(batch) + 1
    rank = _ranks(batch * most + group, found.ranked)
    top = _ranks(batch, found.ranked) < width
    turn = _ranks(batch, top * most**2 - rank * most - group)
    leaders = torch.zeros_like(requires, dtype=torch.int64).scatter_add(0, batch, ((rank == 0) & ~top).long())
    kept = turn < torch.where(requires, width + leaders.clamp(min=width), width)[batch]
    columns = int(turn[kept].max()) + 1 if bool(kept.any()) else 1
    slots = (batch * columns + turn)[kept]

    def placed(x: Tensor, filler: int | float) -> Tensor:
        return x.new_full((b * columns,), filler).index_copy(0, slots, x[kept]).view(b, columns)

    total = found.ranked if penalty is None else found.ranked + penalty[batch, found.ids]
    going = placed(total, NEG_INF), placed(found.rows % k, 0), placed(found.ids, 0)
    return BeamStep(*going, *_ends(ahead, live, end, width, found))


def _candidates(
    ahead: Branching, live: Float[Tensor, "b k"], width: int, penalty: Float[Tensor, "b v"] | None
) -> BranchCandidates:
    """The ``2 * width`` best ids of every branch of every slot, ordered by row and id, without impossible ones."""
    k, v = live.shape[1], ahead.log_probs.shape[1]
    parts = [live.new_zeros(4, 0)]
    for rows, ids, remaining in ahead.branches:
        log_probs = ahead.log_probs.index_select(0, rows).index_select(1, ids)
        if penalty is not None:
            log_probs = log_probs - penalty.index_select(1, ids)[rows // k]
        best, places = largest(log_probs, min(2 * width, len(ids)))
        ranked = live.flatten()[rows, None] + best
        columns = ranked, rows[:, None], ids[places], remaining[:, None]
        parts.append(torch.stack([x.expand_as(ranked).flatten().double() for x in columns]))
    ranked, *others = torch.cat(parts, dim=1)
    rows, ids, remaining = (x.long() for x in others)
    order = (rows * v + ids).argsort()
    order = order[ranked[order] != NEG_INF]
    return BranchCandidates(ranked[order], rows[order], ids[order], remaining[order])


def _groups(found: BranchCandidates, batch: Int[Tensor, " c"], b: int) -> tuple[Int[Tensor, " c"], Bool[Tensor, " b"]]:
    """The group of each candidate, 0 for the closest one, and whether the batch row has candidates that require ids."""
    levels, level = found.remaining.unique(return_inverse=True)
    best = found.ranked.new_full((b, len(levels)), NEG_INF)
    best = best.flatten().scatter_reduce(0, batch * len(levels) + level, found.ranked, "amax").view(b, len(levels))
    closer = torch.nn.functional.pad(best.cummax(dim=1).values, (1, 0), value=NEG_INF)[:, :-1]
    opened = (best > closer).long().cumsum(dim=1)
    return (opened[batch, level] - 1).clamp(min=0), ((best > NEG_INF) & (levels > 0)).any(dim=1)


def _ends(
    ahead: Branching, live: Float[Tensor, "b k"], end: int, width: int, found: BranchCandidates
) -> tuple[Float[Tensor, "b k"], Int[Tensor, "b k"]]:
    """The log-probabilities of the slots that end, and the slots.

    A slot ends if fewer candidates that require nothing any more, and other ends, are better than there are slots,
    twice over: a plain beam has as many as there are slots, but here only some of the slots require nothing.
    """
    b, k = live.shape
    total, rows = live.flatten() + ahead.log_probs[:, end], torch.arange(b * k, device=live.device)
    done = found.remaining == 0
    batch = torch.cat((rows, found.rows[done])) // k
    rank = _ranks(batch, torch.cat((total, found.ranked[done])))[: b * k].view(b, k)
    slots = (live > NEG_INF).sum(dim=1, keepdim=True).clamp(min=max(width, 2))
    return total.view(b, k).masked_fill(rank >= 2 * slots, NEG_INF), (rows % k).view(b, k)


def _ranks(keys: Int[Tensor, " c"], values: Tensor) -> Int[Tensor, " c"]:
    """The rank of each value among those with the same key, 0 for the largest, the first of equals first."""
    order = values.argsort(descending=True, stable=True)
    order = order[keys[order].argsort(stable=True)]
    runs = keys[order].contiguous()
    ranks = torch.arange(len(keys), device=keys.device) - torch.searchsorted(runs, runs)
    return torch.empty_like(order).index_copy(0, order, ranks)
