r"""Policy gradient on the lengths of round trips, with the network's greedy output as baseline.

.. math::  \nabla E[\ell] = E_{y \sim p}\big[(\ell(y) - \ell(\hat y))\, \nabla \log p(y \mid x)\big]

Williams 1992; Bello et al. 2017; the greedy baseline as in Rennie et al. 2017 and Kool et al. 2019. Training
needs no targets. A sample is generated step by step without gradients; its probability is then computed in one pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.seq2seq.pointer import PointerInputs, PointerNetwork
from catena.seq2seq.scheduled import draw


def rollout(
    network: PointerNetwork, things: PointerInputs, choose: Callable[[Float[Tensor, "b v"]], Int[Tensor, " b"]]
) -> Int[Tensor, "b t"]:
    """The ids of an order of each set with its end symbol, from a choice at every step.

    Args:
        network: the pointer network.
        things: the sets.
        choose: maps log-probabilities to the chosen ids.
    """
    stepper, ids = network.stepper(things), []
    state = stepper.start(len(things))
    for _ in range(stepper.v):
        ids.append(choose(stepper.log_probs(state)))
        state = stepper.advance(state, ids[-1])
    return torch.stack(ids, dim=1)


def tour_lengths(points: Float[Tensor, "b s f"], ids: Int[Tensor, "b t"]) -> Float[Tensor, " b"]:
    """The lengths of closed round trips, whose ids include the end symbol."""
    first = points.gather(1, (ids[:, :1, None] - 1).expand(-1, -1, points.shape[2]))
    table = torch.cat((first, points), dim=1)
    way = table.gather(1, ids[..., None].expand(-1, -1, points.shape[2]))
    return (way[:, 1:] - way[:, :-1]).norm(dim=2).sum(dim=1)


def surrogate(
    network: PointerNetwork, things: PointerInputs, ids: Int[Tensor, "b t"], baseline: Float[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """Surrogate loss whose gradient estimates that of the expected length.

    Args:
        network: the pointer network.
        things: the sets.
        ids: orders sampled from the network.
        baseline: length of the greedy order of each set.
    """
    found = network.token_log_probs(things, ids, things.lengths + 1).sum(dim=1)
    return (tour_lengths(things.values, ids) - baseline) * found


def reinforced_loss(network: PointerNetwork, things: PointerInputs) -> Float[Tensor, ""]:
    """The mean surrogate loss over sets, with one sample per set."""
    greedy = rollout(network, things, lambda log_probs: log_probs.argmax(dim=1))
    sampled = rollout(network, things, draw)
    return surrogate(network, things, sampled, tour_lengths(things.values, greedy)).mean()
