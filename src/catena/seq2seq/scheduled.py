r"""Scheduled sampling: in training a decoder sometimes reads its own predictions.

With probability :math:`\epsilon_i` at training step i the gold token is read, and otherwise one that is sampled from
the model. Bengio et al. 2015, section 2.4:

* linear: :math:`\epsilon_i = \max(\epsilon, k - c\, i)`
* exponential: :math:`\epsilon_i = k^i`, k < 1
* inverse sigmoid: :math:`\epsilon_i = k / (k + \exp(i / k))`, k ≥ 1

``least`` applies to all three. The schedule depends only on the step, so that an interrupted training resumes exactly.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.seq2seq.recurrent_config import ScheduledSamplingConfig


def teacher_forcing_prob(settings: ScheduledSamplingConfig, step: int) -> float:
    """The probability of reading the gold token at this training step, counted from 0."""
    match settings.schedule:
        case "none":
            return 1.0
        case "linear":
            share = settings.k - settings.c * step
        case "exponential":
            share = settings.k**step
        case "inverse_sigmoid":
            # exp(-i / k) instead of exp(i / k), which overflows in long trainings.
            small = math.exp(-step / settings.k)
            share = settings.k * small / (settings.k * small + 1)
    return min(1.0, max(settings.least, share))


def draw(log_probs: Float[Tensor, "*b v"]) -> Int[Tensor, "*b"]:
    """A sampled id for each row, by torch's default generator; never one of log-probability -inf."""
    times = torch.empty_like(log_probs).exponential_().clamp_min(torch.finfo(log_probs.dtype).tiny)
    return (log_probs - times.log()).argmax(dim=-1)


def bernoulli_mask(share: float, like: Int[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
    """True with probability ``share`` for each element, by torch's default generator."""
    return torch.rand(like.shape, device=like.device) < share
