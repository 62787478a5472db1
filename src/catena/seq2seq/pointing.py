"""Rules of allowed positions for pointer networks, so that every output is valid.

Ids are of positions: ``END`` is 0 and position j is ``j + 1``, for any padding. A rule returns for every prefix
of a sequence the ids that may follow it:

============  =====================================================================================================
``any``       every position, any number of times; the end at any time
``some``      every position at most once; the end at any time
``order``     every position exactly once, then the end: permutations and tours
``ring``      positions once each, until the first one is repeated; then the end: convex hulls
``triples``   three different positions at a time, no triple twice and at most 2 n - 5 triples, the maximum for n
              points in a plane; the end between them: triangulations
============  =====================================================================================================

After the end, and if nothing else is allowed, only the end may follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from catena.registry import Registry
from catena.shapes import mask_from_lengths

END = 0


class PointingRule(ABC):
    """Abstract rule for the ids that may follow a prefix."""

    @abstractmethod
    def along(self, before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
        """Whether an id may follow the first i ids, ``[..., i, id]``, for i = 0 … t."""

    @abstractmethod
    def after(
        self, before: Int[Tensor, "b t"], lengths: Int[Tensor, " b"], real: Bool[Tensor, "b s"]
    ) -> Bool[Tensor, "b v"]:
        """Whether an id may follow the first ``lengths[i]`` ids of row ``i``."""


RULES: Registry[type[PointingRule]] = Registry("rule of pointing")


def allowed_ids(rule: str, before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """``[i, t, id]``: whether ``id`` may follow the first ``t`` ids of ``before[i]``, for ``t`` = 0 … n - 1.

    Each row and step has at least one allowed id.
    """
    ended = pad((before == END).cumsum(dim=1) > 0, (1, 0))
    return _or_end(RULES[rule]().along(before, real) & ~ended[..., None])


def allowed_after(
    rule: str, before: Int[Tensor, "b t"], lengths: Int[Tensor, " b"], real: Bool[Tensor, "b s"]
) -> Bool[Tensor, "b v"]:
    """``[i, id]``: whether ``id`` may follow the first ``lengths[i]`` ids of ``before[i]``.

    Time O(t + s) for a row, except for ``triples``.
    """
    ended = ((before == END) & mask_from_lengths(lengths, before.shape[1])).any(dim=1)
    return _or_end(RULES[rule]().after(before, lengths, real) & ~ended[:, None])


def most_steps(rule: str, s: int, longest: int = 0) -> int:
    """The maximum number of steps of an output over ``s`` positions, including the end.

    ``longest`` is the number of positions for ``any``, which has no bound.
    """
    return {"any": max(longest, s), "ring": s + 1, "triples": 3 * max(2 * s - 5, 0)}.get(rule, s) + 1


def _or_end(may: Bool[Tensor, "*b v"]) -> Bool[Tensor, "*b v"]:
    """The same, with the end allowed where nothing else is."""
    return torch.cat((may[..., :1] | ~may.any(dim=-1, keepdim=True), may[..., 1:]), dim=-1)


# --- rules that depend on the set of positions so far -----------------------------------------------------------------


class PointingHistory(NamedTuple):
    """The summary of a prefix."""

    used: Bool[Tensor, "*b s"]
    """The positions in it."""
    first: Int[Tensor, "*b"]
    """Its first id; ``END`` if it is empty."""
    returned: Bool[Tensor, "*b"]
    """Whether its first id has been repeated."""


class OfSeen(PointingRule):
    """Abstract rule that depends only on :class:`PointingHistory`."""

    @abstractmethod
    def may(self, seen: PointingHistory, real: Bool[Tensor, "*b s"]) -> tuple[Bool[Tensor, "*b"], Bool[Tensor, "*b s"]]:
        """Whether the end may follow, and which positions may follow."""

    def along(self, before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
        b, t = before.shape
        steps = torch.arange(t, device=before.device).expand(b, t)
        never = before.new_full((b, real.shape[1] + 1), t)
        came = never.scatter_reduce(1, before, steps, "amin")[:, 1:]  # the first step of each position
        places = torch.arange(t + 1, device=before.device)[:, None]
        first = pad(before[:, :1].expand(b, t), (1, 0)) if t else before.new_zeros(b, 1)
        returned = pad((before == before[:, :1]).cumsum(dim=1) > 1, (1, 0))
        seen = PointingHistory(came[:, None] < places, first, returned)
        return _with_end(*self.may(seen, real[:, None].expand(b, t + 1, -1)))

    def after(
        self, before: Int[Tensor, "b t"], lengths: Int[Tensor, " b"], real: Bool[Tensor, "b s"]
    ) -> Bool[Tensor, "b v"]:
        b, t = before.shape
        written = before.masked_fill(~mask_from_lengths(lengths, t), END)
        used = torch.zeros(b, real.shape[1] + 1, dtype=torch.bool, device=before.device)
        used = used.scatter(1, written, True)[:, 1:]
        first = written[:, 0] if t else before.new_zeros(b)
        returned = ((written == first[:, None]).sum(dim=1) > 1) & (first != END)
        return _with_end(*self.may(PointingHistory(used, first, returned), real))


def _with_end(end: Bool[Tensor, "*b"], positions: Bool[Tensor, "*b s"]) -> Bool[Tensor, "*b v"]:
    return torch.cat((end[..., None], positions), dim=-1)


@RULES.register("any")
class AnyPosition(OfSeen):
    """Every position, any number of times."""

    def may(self, seen: PointingHistory, real: Bool[Tensor, "*b s"]) -> tuple[Bool[Tensor, "*b"], Bool[Tensor, "*b s"]]:
        return torch.ones_like(seen.returned), real


@RULES.register("some")
class DistinctPositions(OfSeen):
    """Every position at most once."""

    def may(self, seen: PointingHistory, real: Bool[Tensor, "*b s"]) -> tuple[Bool[Tensor, "*b"], Bool[Tensor, "*b s"]]:
        return torch.ones_like(seen.returned), real & ~seen.used


@RULES.register("order")
class Permutation(OfSeen):
    """Every position once, and then the end."""

    def may(self, seen: PointingHistory, real: Bool[Tensor, "*b s"]) -> tuple[Bool[Tensor, "*b"], Bool[Tensor, "*b s"]]:
        left = real & ~seen.used
        return ~left.any(dim=-1), left


@RULES.register("ring")
class ClosedTour(OfSeen):
    """Positions once each, until the first is repeated."""

    def may(self, seen: PointingHistory, real: Bool[Tensor, "*b s"]) -> tuple[Bool[Tensor, "*b"], Bool[Tensor, "*b s"]]:
        is_first = torch.arange(1, real.shape[-1] + 1, device=real.device) == seen.first[..., None]
        return seen.returned, real & (~seen.used | is_first) & ~seen.returned[..., None]


# --- triples ----------------------------------------------------------------------------------------------------------


@RULES.register("triples")
class Triangles(PointingRule):
    """Three different positions at a time, no triple twice. Time O(t (t + s)) for a sequence."""

    def along(self, before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
        b, t = before.shape
        v = real.shape[1] + 1
        groups = pad(before, (0, 3 - t % 3)).view(b, t // 3 + 1, 3)
        hot = one_hot(groups, v).float()  # b k 3 v
        members = hot.sum(dim=2)
        earlier = torch.ones(groups.shape[1], groups.shape[1], device=before.device).tril(-1)
        with_first = torch.einsum("bkv,bjv->bkj", hot[:, :, 0], members) * earlier
        with_both = with_first * torch.einsum("bkv,bjv->bkj", hot[:, :, 1], members)
        n = real.sum(dim=1).view(b, 1, 1)
        # How many of the earlier triples contain a position: at all, with the first, and with both of a new one.
        alone = (members.cumsum(dim=1) - members) < (n - 1) * (n - 2) // 2
        full = torch.arange(groups.shape[1], device=before.device)[:, None] >= 2 * n - 5
        beside_first = (with_first @ members < n - 2) & (hot[:, :, 0] == 0)
        beside_both = (with_both @ members == 0) & (hot[:, :, :2].sum(dim=2) == 0)
        may = torch.stack((alone & ~full & (n >= 3), beside_first, beside_both), dim=2).flatten(1, 2)[:, : t + 1]
        between = torch.arange(t + 1, device=before.device) % 3 == 0
        return _with_end(between.expand(b, t + 1), may[..., 1:] & real[:, None])

    def after(
        self, before: Int[Tensor, "b t"], lengths: Int[Tensor, " b"], real: Bool[Tensor, "b s"]
    ) -> Bool[Tensor, "b v"]:
        return self.along(before, real)[torch.arange(len(before), device=before.device), lengths]
