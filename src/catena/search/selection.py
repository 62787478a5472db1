"""Selection of the continuations that a beam keeps: the most probable of all slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from catena.kernels.top_k.ops import largest
from catena.numerics import NEG_INF
from catena.search.next_scores import TopIds


class BeamStep(NamedTuple):
    """The continuations kept and those that end: cumulative log-probabilities and the slots they come from."""

    live: Float[Tensor, "b k"]
    parents: Int[Tensor, "b k"]
    ids: Int[Tensor, "b k"]
    ended: Float[Tensor, "b m"]
    ended_parents: Int[Tensor, "b m"]


SelectFn = Callable[[Any, Float[Tensor, "b k"]], BeamStep]
"""From the scores of the next ids and the cumulative log-probabilities to the selected continuations."""


def select_top(
    log_probs: Float[Tensor, "b k v"],
    live: Float[Tensor, "b k"],
    end: int,
    width: int,
    penalty: Float[Tensor, "b v"] | None = None,
) -> BeamStep:
    """The ``width`` best continuations that do not end, and those that end among the ``width`` best of all.

    Twice as many candidates as slots are enough: each slot has one that ends. A ``penalty`` of ids affects the
    ranking only.
    """
    ranked = log_probs if penalty is None else log_probs - penalty[:, None]
    near = TopIds(*largest(ranked.flatten(0, 1), min(width + 1, log_probs.shape[2])))
    return select_top_of_sets(near, live, end, width, penalty)


def select_top_of_sets(
    near: TopIds, live: Float[Tensor, "b k"], end: int, width: int, penalty: Float[Tensor, "b v"] | None = None
) -> BeamStep:
    """The same among the top ids of each slot; the penalty is already subtracted from their log-probabilities."""
    each = near.ids.shape[1]
    ids = near.ids.view(len(live), live.shape[1] * each)
    total = (live[:, :, None] + near.log_probs.view(*live.shape, each)).flatten(1)
    total, places = total.topk(min(2 * width, total.shape[1]), dim=1)
    ids, parents = ids.gather(1, places), places // each
    if penalty is not None:
        total = total + penalty.gather(1, ids)
    is_end = ids == end
    m = min(width, total.shape[1])
    ended = total.masked_fill(~is_end, NEG_INF)[:, :m]
    if total.device.type == "cpu" and not is_end.any():  # a GPU would have to wait for the answer
        parents = parents[:, :m]
        return BeamStep(total[:, :m], parents, ids[:, :m], ended, parents)
    # Stable, so that the kept continuations stay in the order of their rank.
    order = is_end.long().argsort(dim=1, stable=True)[:, :m]
    going = total.masked_fill(is_end, NEG_INF).gather(1, order)
    return BeamStep(going, parents.gather(1, order), ids.gather(1, order), ended, parents[:, :m])
