"""What may be pointed at next: rules that hold whatever a network says, so that every answer is a valid one.

Ids are of positions: ``END`` is 0 and position j is ``j + 1``, whatever the padding. A rule tells for every beginning
of a sequence which ids may follow it:

============  =====================================================================================================
``any``       every position, as often as one likes; the end at any time
``some``      every position at most once; the end at any time
``order``     every position exactly once, then the end: orders and round trips
``ring``      positions once each, until the first one comes again; then the end: convex hulls
``triples``   three different positions at a time, no three of them twice and at most 2 n - 5 times, which is what n
              points in a plane have room for; the end between them: triangulations
============  =====================================================================================================

After the end comes the end alone, and so it is where nothing else is left. Knows no scores.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from catena.registry import Registry

END = 0

Rule = Callable[[Int[Tensor, "b t"], Bool[Tensor, "b s"]], Bool[Tensor, "b n v"]]
"""From ids and which positions are real to what may follow the first i ids, ``[..., i, id]``, for i = 0 … t."""
RULES: Registry[Rule] = Registry("rule of pointing")


def allowed(rule: str, before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """``[i, t, id]``: whether ``id`` may come after the first ``t`` of ``before[i]``; ``n`` is one more than they are.

    Each row and step has at least one id that may.
    """
    may = RULES[rule](before, real)
    ended = pad((before == END).cumsum(dim=1) > 0, (1, 0))
    may = may & ~ended[..., None]
    return torch.cat((may[..., :1] | ~may.any(dim=-1, keepdim=True), may[..., 1:]), dim=-1)


def most_steps(rule: str, s: int, longest: int = 0) -> int:
    """The steps that the longest answer over ``s`` positions takes, the end among them. ``longest`` is for ``any``, to
    which a rule sets no bound: at least so many positions."""
    return {"any": max(longest, s), "ring": s + 1, "triples": 3 * max(2 * s - 5, 0)}.get(rule, s) + 1


def _used(before: Int[Tensor, "b t"], s: int) -> Bool[Tensor, "b n s"]:
    """Which positions are among the first i ids, for i = 0 … t."""
    return pad(one_hot(before, s + 1)[..., 1:].cumsum(dim=1) > 0, (0, 0, 1, 0))


def _with_end(end: Bool[Tensor, "b n"], positions: Bool[Tensor, "b n s"]) -> Bool[Tensor, "b n v"]:
    return torch.cat((end[..., None], positions), dim=-1)


@RULES.register("any")
def anything(before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """Every position, as often as one likes."""
    b, t = before.shape
    return pad(real, (1, 0), value=True)[:, None].expand(b, t + 1, real.shape[1] + 1)


@RULES.register("some")
def some(before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """Every position at most once."""
    left = real[:, None] & ~_used(before, real.shape[1])
    return pad(left, (1, 0), value=True)


@RULES.register("order")
def order(before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """Every position once, and the end when none is left."""
    left = real[:, None] & ~_used(before, real.shape[1])
    return _with_end(~left.any(dim=-1), left)


@RULES.register("ring")
def ring(before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """Positions once each, until the first comes again."""
    first = before[:, :1]
    returned = pad(((before == first).cumsum(dim=1) > 1), (1, 0))
    may = ~_used(before, real.shape[1])
    if before.shape[1]:
        first_again = one_hot(first, real.shape[1] + 1)[..., 1:].bool()
        may = torch.cat((may[:, :1], may[:, 1:] | first_again), dim=1)
    return _with_end(returned, real[:, None] & may & ~returned[..., None])


@RULES.register("triples")
def triples(before: Int[Tensor, "b t"], real: Bool[Tensor, "b s"]) -> Bool[Tensor, "b n v"]:
    """Three different positions at a time, no three twice."""
    b, t = before.shape
    v = real.shape[1] + 1
    groups = pad(before, (0, 3 - t % 3)).view(b, t // 3 + 1, 3)
    hot = one_hot(groups, v).float()  # b k 3 v
    members = hot.sum(dim=2)
    earlier = torch.ones(groups.shape[1], groups.shape[1], device=before.device).tril(-1)
    with_first = torch.einsum("bkv,bjv->bkj", hot[:, :, 0], members) * earlier
    with_both = with_first * torch.einsum("bkv,bjv->bkj", hot[:, :, 1], members)
    n = real.sum(dim=1).view(b, 1, 1)
    # How many of the earlier triples hold a position: alone, beside the first, and beside the first two of a new one.
    alone = (members.cumsum(dim=1) - members) < (n - 1) * (n - 2) // 2
    full = torch.arange(groups.shape[1], device=before.device)[:, None] >= 2 * n - 5
    beside_first = (with_first @ members < n - 2) & (hot[:, :, 0] == 0)
    beside_both = (with_both @ members == 0) & (hot[:, :, :2].sum(dim=2) == 0)
    may = torch.stack((alone & ~full & (n >= 3), beside_first, beside_both), dim=2).flatten(1, 2)[:, : t + 1]
    between = torch.arange(t + 1, device=before.device) % 3 == 0
    return _with_end(between.expand(b, t + 1), may[..., 1:] & real[:, None])
