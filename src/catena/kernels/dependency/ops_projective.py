"""Torch operators for projective dependency trees on the CPU: sums, the best, the k best, and samples.

Arguments are as in :mod:`catena.kernels.dependency.ops`; the loops are in :mod:`catena.kernels.dependency.cpu_eisner`
and :mod:`catena.kernels.dependency.cpu_eisner_search`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.common.ops import register_sampler, torch_operator
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.dependency.cpu_eisner import rescue_rows, sum_rows
from catena.kernels.dependency.cpu_eisner_search import best_rows, sample_rows, top_rows
from catena.kernels.dependency.ops import arc_sums, as_arrays, search_operators
from catena.kernels.dependency.reference import projective_log_partition

SUMS = arc_sums("eisner", (sum_rows, rescue_rows), projective_log_partition)
best, top = search_operators("eisner", best_rows, top_rows, power=3)


def log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """log Z of every row."""
    # The arc probabilities are computed in the backward pass: without them log Z takes a third of the time.
    return SUMS.log_z(arcs, lengths, single_root)


def log_partition_and_marginals(arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every arc."""
    return SUMS.log_partition_and_marginals(arcs, lengths, single_root)


@torch_operator("eisner_sample")
def sample(arcs: Tensor, lengths: Tensor, single_root: bool, uniforms: Tensor) -> Tensor:
    """Heads drawn from each row, ``[s, b, t]``, by uniform numbers ``[s, b, 2 t or more]``."""
    arrays = as_arrays(arcs.detach(), lengths, single_root)
    b, n, _ = arcs.shape
    heads = torch.full((len(uniforms), b, n - 1), -1)
    results = (uniforms.double().contiguous().numpy(), heads.numpy())
    in_row_blocks(lambda low, high: sample_rows(*arrays, low, high, *results), b, b * n * n * (n + 2 * len(uniforms)))
    return heads


register_sampler(sample, lambda arcs, *_: (arcs.shape[1] - 1,))
