"""Reference implementations of sums over parses, with dense and with low-rank rules."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.numerics import NEG_INF, log_sum_exp


def log_partition_reference(
    words: Tensor, rules: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, p = words.shape
    n = rules.shape[1]
    rules = rules.repeat_interleave(b // len(rules), 0)
    roots = roots.repeat_interleave(b // len(roots), 0)
    by_width = [torch.cat((words.new_full((b, t, n), NEG_INF), words), dim=2)]
    total = torch.where(lengths == 1, log_sum_exp(roots + by_width[0][:, 0], dim=1), NEG_INF)
    for w in range(1, t):
        m = t - w
        left = torch.stack([by_width[u][:, :m] for u in range(w)])
        right = torch.stack([by_width[w - 1 - u][:, u + 1 : u + 1 + m] for u in range(w)])
        pairs = log_sum_exp(left[..., :, None] + right[..., None, :], dim=0).flatten(2)
        here = log_sum_exp(rules.flatten(2)[:, None] + pairs[:, :, None], dim=3)
        if spans is not None:
            here = here + spans.diagonal(w, dim1=1, dim2=2).transpose(1, 2)
        by_width.append(torch.cat((here, words.new_full((b, m, p), NEG_INF)), dim=2))
        total = torch.where(lengths == w + 1, log_sum_exp(roots + by_width[w][:, 0], dim=1), total)
    return total


def low_rank_log_partition_reference(
    words: Tensor, parents: Tensor, lefts: Tensor, rights: Tensor, roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, p = words.shape
    n = parents.shape[1]
    groups = (x.repeat_interleave(b // len(x), 0) for x in (parents, lefts, rights, roots))
    parents, lefts, rights, roots = groups
    column = torch.cat((words.new_full((b, t, n), NEG_INF), words), dim=2)
    total = torch.where(lengths == 1, log_sum_exp(roots + column[:, 0], dim=1), NEG_INF)
    as_left: list[Tensor] = []
    as_right: list[Tensor] = []
    for w in range(1, t):
        m = t - w
        as_left.append(log_sum_exp(lefts[:, None] + column[:, :, None], dim=3))
        as_right.append(log_sum_exp(rights[:, None] + column[:, :, None], dim=3))
        left = torch.stack([as_left[u][:, :m] for u in range(w)])
        right = torch.stack([as_right[w - 1 - u][:, u + 1 : u + 1 + m] for u in range(w)])
        here = log_sum_exp(parents[:, None] + log_sum_exp(left + right, dim=0)[:, :, None], dim=3)
        if spans is not None:
            here = here + spans.diagonal(w, dim1=1, dim2=2).transpose(1, 2)
        column = torch.cat((here, words.new_full((b, m, p), NEG_INF)), dim=2)
        total = torch.where(lengths == w + 1, log_sum_exp(roots + column[:, 0], dim=1), total)
    return total
