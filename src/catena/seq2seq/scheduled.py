r"""Scheduled sampling: a decoder in training sometimes reads what it would have written itself.

With probability :math:`\epsilon_i` at step i of the training the true token is read, and else one that is drawn from
the model. Bengio et al. 2015, section 2.4:

* linear: :math:`\epsilon_i = \max(\epsilon, k - c\, i)`
* exponential: :math:`\epsilon_i = k^i`, k < 1
* inverse sigmoid: :math:`\epsilon_i = k / (k + \exp(i / k))`, k ≥ 1

``least`` holds for all three. The schedule is a function of the step alone, so that training which was broken off goes
on exactly.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.seq2seq.recurrent_config import ScheduledSamplingConfig


def teacher_forcing_prob(settings: ScheduledSamplingConfig, step: int) -> float:
    """The probability of reading the true token at this step of the training, counted from 0."""
    match settings.schedule:
        case "none":
            return 1.0
        case "linear":
            share = settings.k - settings.c * step
        case "exponential":
            share = settings.k**step
        case "inverse_sigmoid":
            # exp(-i / k) in place of exp(i / k), which is too large a number for long trainings.
            small = math.exp(-step / settings.k)
            share = settings.k * small / (settings.k * small + 1)
    return min(1.0, max(settings.least, share))


def draw(log_probs: Float[Tensor, "*b v"]) -> Int[Tensor, "*b"]:
    """An id of each row, by torch's own generator; one of log-probability -inf is never drawn."""
    times = torch.empty_like(log_probs).exponential_().clamp_min(torch.finfo(log_probs.dtype).tiny)
    return (log_probs - times.log()).argmax(dim=-1)


def bernoulli_mask(share: float, like: Int[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
    """True with probability ``share`` at each place, by torch's own generator."""
    return torch.rand(like.shape, device=like.device) < share
