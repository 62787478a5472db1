"""Reference implementation of sums over alignments."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.numerics import NEG_INF, log_sum_exp


def log_partition_reference(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp over diagonals; differentiable any number of times."""
    b, s, t = substitutions.shape
    paired = by_diagonal(substitutions)
    put = by_diagonal(insertions.expand(b, s + 1, t))
    dropped = by_diagonal(deletions.expand(b, s, t + 1))
    never = substitutions.new_full((b, 1), NEG_INF)
    before = alpha = torch.cat((torch.zeros_like(never), never.expand(b, s)), dim=1)
    total = substitutions.new_zeros(b)
    for d in range(1, s + t + 1):
        terms = [alpha + put[:, :, d - 1], torch.cat((never, alpha[:, :-1] + dropped[:, :, d - 1]), dim=1)]
        if d > 1:
            terms.append(torch.cat((never, before[:, :-1] + paired[:, :, d - 2]), dim=1))
        before = alpha
        alpha = log_sum_exp(torch.stack(terms), dim=0)
        here = alpha.gather(1, n_source[:, None])[:, 0]
        total = torch.where(n_source + n_target == d, here, total)
    return total


def by_diagonal(x: Tensor) -> Tensor:
    """``[:, i, d]`` is ``x[:, i, d - i]``, and -inf where that lies outside."""
    b, m, n = x.shape
    wide = torch.cat((x, x.new_full((b, m, m), NEG_INF)), dim=2).flatten(1)
    return wide[:, : m * (m + n - 1)].unflatten(1, (m, m + n - 1))
