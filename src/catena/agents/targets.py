r"""Targets and losses of Q-learning.

.. math::
    y = r + \gamma (1 - \text{terminated}) \max_{a'} Q(s', a'; \theta^-), \qquad
    L = \ell\big(y - Q(s, a; \theta)\big)

Double Q-learning selects a' by the online network θ and values it by the target network θ⁻. The loss ℓ is e²/2, or
Huber's with δ = 1, whose gradient is e clipped to [-1, 1]. Mnih et al. 2015, algorithm 1; van Hasselt et al. 2016,
equation 4.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def q_targets(
    rewards: Float[Tensor, "*n"],
    terminated: Bool[Tensor, "*n"],
    next_q: Float[Tensor, "*n a"],
    discount: float,
    next_q_online: Float[Tensor, "*n a"] | None = None,
) -> Float[Tensor, "*n"]:
    """The targets y. A truncated step is not terminated, so its next state keeps its value.

    Args:
        rewards: the reward of each step.
        terminated: whether the environment ended at this step, so that no rewards follow.
        next_q: values of the next state by the target network.
        discount: γ.
        next_q_online: values of the next state by the online network, for double Q-learning.
    """
    if next_q_online is None:
        best = next_q.amax(-1)
    else:
        best = gather_actions(next_q, next_q_online.argmax(-1))
    return rewards + discount * torch.where(terminated, 0.0, best)


def gather_actions(q: Float[Tensor, "*n a"], actions: Int[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Q(s, a) of the given actions."""
    return q.gather(-1, actions[..., None]).squeeze(-1)


def td_loss(
    q: Float[Tensor, "*n"], targets: Float[Tensor, "*n"], kind: Literal["huber", "squared"], mask: Tensor | None = None
) -> Float[Tensor, ""]:
    """The mean loss of the temporal difference errors, over the True entries of ``mask``; targets get no gradient.

    Args:
        q: Q(s, a) of the action that was taken.
        targets: the targets y.
        kind: ``squared`` is e²/2; ``huber`` is |e| - 1/2 where |e| > 1.
        mask: the steps that count; all if None.
    """
    targets = targets.detach()
    if kind == "huber":
        losses = F.smooth_l1_loss(q, targets, reduction="none")
    else:
        losses = 0.5 * (targets - q).square()
    return losses.mean() if mask is None else losses[mask].mean()
