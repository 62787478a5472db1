"""Reference implementation of sums over one-to-one alignments."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.alignment.reference import by_diagonal
from catena.numerics import NEG_INF, log_sum_exp


def log_partition_reference(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp over diagonals; differentiable any number of times."""
    b, s, t = scores.shape
    pairs = by_diagonal(scores)
    puts = by_diagonal(target_gaps[:, None].expand(b, s + 1, t))
    never = scores.new_full((b, 1), NEG_INF)
    before = ahead = alpha = torch.cat((torch.zeros_like(never), never.expand(b, s)), dim=1)
    total = scores.new_zeros(b)
    for d in range(1, s + t + 1):
        ways = [ahead + puts[:, :, d - 1]]
        if d > 1:
            ways.append(torch.cat((never, before[:, :-1] + pairs[:, :, d - 2]), dim=1))
        ahead = log_sum_exp(torch.stack(ways), dim=0)
        dropped = torch.cat((never, alpha[:, :-1] + source_gaps), dim=1)
        before = alpha
        alpha = log_sum_exp(torch.stack((ahead, dropped)), dim=0)
        here = alpha.gather(1, n_source[:, None])[:, 0]
        total = torch.where(n_source + n_target == d, here, total)
    return total
