"""Reference implementation of sums over CTC labelings."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.numerics import NEG_INF, log_sum_exp


def log_partition_reference(
    emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, _ = emissions.shape
    s = targets.shape[1]
    never = emissions.new_full((b, 1), NEG_INF)
    of_labels = emissions.gather(2, targets[:, None, :].expand(b, t, s))
    blanks = torch.cat((torch.zeros_like(never), never.expand(b, s)), dim=1)
    labels = never.expand(b, s)
    other = torch.cat((targets[:, :1] != targets[:, :1], targets[:, 1:] != targets[:, :-1]), dim=1)
    may_skip = other & (targets != blank)
    for i in range(t):
        before = torch.cat((never, labels), dim=1)
        to_blanks = log_sum_exp(torch.stack((blanks, before)), dim=0) + emissions[:, i, blank, None]
        skipped = torch.where(may_skip, before[:, :-1], NEG_INF)
        to_labels = log_sum_exp(torch.stack((labels, blanks[:, :-1], skipped)), dim=0) + of_labels[:, i]
        real = (i < n_frames)[:, None]
        blanks = torch.where(real, to_blanks, blanks)
        labels = torch.where(real, to_labels, labels)
    ends = (x.gather(1, n_labels[:, None])[:, 0] for x in (blanks, torch.cat((never, labels), dim=1)))
    return log_sum_exp(torch.stack(tuple(ends)), dim=0)
