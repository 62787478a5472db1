r"""Learning round trips from their lengths alone: policy gradient with the network's own greedy answer as the baseline.

.. math::  \nabla E[\ell] = E_{y \sim p}\big[(\ell(y) - \ell(\hat y))\, \nabla \log p(y \mid x)\big]

Williams 1992; Bello et al. 2017; the greedy baseline as in Rennie et al. 2017 and Kool et al. 2019. No right answer is
needed for training. A sample is drawn step by step without gradients, and its probability is then computed at once.
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
    """An order of each set, its end last, by a choice at every step."""
    stepper, ids = network.stepper(things), []
    state = stepper.start(len(things))
    for _ in range(stepper.v):
        ids.append(choose(stepper.log_probs(state)))
        state = stepper.advance(state, ids[-1])
    return torch.stack(ids, dim=1)


def tour_lengths(points: Float[Tensor, "b s f"], ids: Int[Tensor, "b t"]) -> Float[Tensor, " b"]:
    """The lengths of round trips, each of which ends with the end: there it is back at its first point."""
    first = points.gather(1, (ids[:, :1, None] - 1).expand(-1, -1, points.shape[2]))
    table = torch.cat((first, points), dim=1)
    way = table.gather(1, ids[..., None].expand(-1, -1, points.shape[2]))
    return (way[:, 1:] - way[:, :-1]).norm(dim=2).sum(dim=1)


def surrogate(
    network: PointerNetwork, things: PointerInputs, ids: Int[Tensor, "b t"], baseline: Float[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """What has the gradient of the expected length, where ``ids`` were drawn from the network."""
    found = network.token_log_probs(things, ids, things.lengths + 1).sum(dim=1)
    return (tour_lengths(things.values, ids) - baseline) * found


def reinforced_loss(network: PointerNetwork, things: PointerInputs) -> Float[Tensor, ""]:
    """The mean over sets, with one sample of each."""
    greedy = rollout(network, things, lambda log_probs: log_probs.argmax(dim=1))
    sampled = rollout(network, things, draw)
    return surrogate(network, things, sampled, tour_lengths(things.values, greedy)).mean()
