"""Reference implementation of sums over segmentations."""

from __future__ import annotations

import torch
from torch import Tensor

from catena.numerics import log_sum_exp


def log_partition_reference(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    b, t, m, _ = segments.shape
    each = b // tables.shape[0]
    tables, start, end = (x.repeat_interleave(each, 0) for x in (tables, start, end))
    entry = [start]
    result = segments.new_zeros(b)
    for j in range(1, t + 1):
        ways = [entry[i] + segments[:, i, j - i - 1] for i in range(max(0, j - m), j)]
        here = log_sum_exp(torch.stack(ways, dim=1), dim=1)
        result = torch.where(lengths == j, log_sum_exp(here + end, dim=1), result)
        entry.append(log_sum_exp(here[:, :, None] + tables, dim=1))
    return result
