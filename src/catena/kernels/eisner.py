"""Sums over projective dependency trees on the CPU: log Z and the probabilities of arcs, as operators of torch.

The loops are in :mod:`catena.kernels.eisner_loops`, the searches in :mod:`catena.kernels.eisner_search`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.arc_sums import arc_sum, possible_arcs
from catena.kernels.eisner_loops import rescue_rows, sum_rows
from catena.numerics import log_sum_exp


def plain_log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """What the kernels compute, by plain log-sum-exp; differentiable any number of times."""
    n = arcs.shape[-1]
    arcs = possible_arcs(arcs, lengths)
    right = [arcs.new_zeros(arcs.shape[:-1])]
    left, right_arc, left_arc = list(right), list(right), list(right)
    for w in range(1, n):
        size, splits = n - w, range(w)
        below = _joined([right[k][:, :size] + left[w - 1 - k][:, k + 1 : k + 1 + size] for k in splits])
        if single_root:
            below = torch.cat((left[w - 1][:, 1:2], below[:, 1:]), dim=1)
        right_arc.append(below + arcs.diagonal(w, 1, 2))
        left_arc.append(below + arcs.diagonal(-w, 1, 2))
        right.append(_joined([right_arc[w - k][:, :size] + right[k][:, w - k : w - k + size] for k in splits]))
        left.append(_joined([left_arc[w - k][:, k : k + size] + left[k][:, :size] for k in splits]))
    reached = torch.stack([half[:, 0] for half in right], dim=1)
    return reached.gather(1, lengths[:, None])[:, 0]


def _joined(ways: list[Tensor]) -> Tensor:
    return log_sum_exp(torch.stack(ways), dim=0)


# log Z alone takes a third of the time, and half the memory is worth that.
log_partition, log_partition_and_marginals = arc_sum("eisner", (sum_rows, rescue_rows), plain_log_partition, keep=False)
