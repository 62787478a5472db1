"""Reference implementation of sums over linear chains."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.numerics import log_sum_exp


def log_partition_reference(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, _ = emissions.shape
    each = b // start.shape[0]
    start = start.repeat_interleave(each, 0)
    end = end.repeat_interleave(each, 0)
    per_step = tables.dim() == 4
    tables = tables if per_step else tables.repeat_interleave(b // tables.shape[0], 0)
    alpha = emissions[:, 0] + start
    for i in range(1, t):
        paths = alpha[:, :, None] + (tables[:, i] if per_step else tables)
        alpha = torch.where((i < lengths)[:, None], log_sum_exp(paths, dim=1) + emissions[:, i], alpha)
    return torch.where(lengths > 0, log_sum_exp(alpha + end, dim=1), 0.0)
