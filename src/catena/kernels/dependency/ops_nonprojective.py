"""Torch operators for non-projective dependency trees on the CPU: sums, the best, the k best, and samples.

Arguments are as in :mod:`catena.kernels.dependency.ops`. Sums use the matrix-tree theorem
(:mod:`catena.kernels.dependency.cpu_matrix_tree`), searches contract cycles
(:mod:`catena.kernels.dependency.cpu_arborescence`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.common.ops import register_sampler, torch_operator
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.dependency.cpu_arborescence import best_rows, top_rows
from catena.kernels.dependency.cpu_matrix_tree import sum_rows
from catena.kernels.dependency.cpu_matrix_tree_sample import join_rows, walk_rows
from catena.kernels.dependency.cpu_matrix_tree_wide import rescue_rows
from catena.kernels.dependency.ops import arc_sums, as_arrays, search_operators
from catena.kernels.dependency.reference import nonprojective_log_partition

SUMS = arc_sums("matrix_tree", (sum_rows, rescue_rows), nonprojective_log_partition)


def log_partition(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """log Z of every row; the arc probabilities are saved for the backward pass."""
    return SUMS.log_partition(arcs, lengths, single_root)


def log_partition_and_marginals(arcs: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every arc."""
    return SUMS.log_partition_and_marginals(arcs, lengths, single_root)


@torch_operator("matrix_tree_sample")
def sample(arcs: Tensor, lengths: Tensor, single_root: bool, seeds: Tensor) -> Tensor:
    """Heads drawn from each row, ``[s, b, t]``, by seeds ``[s, b]``."""
    arrays = as_arrays(arcs, lengths, single_root)
    b, n, _ = arcs.shape
    marginals = log_partition_and_marginals(arcs.detach().double(), lengths, single_root)[1]
    heads = torch.full((len(seeds), b, n - 1), -1)
    left = torch.zeros(seeds.shape, dtype=torch.bool)
    tensors = (marginals[:, 0].cumsum(-1), seeds.contiguous(), heads, left)
    more = [x.numpy() for x in tensors]
    in_row_blocks(lambda low, high: walk_rows(*arrays, low, high, *more), b, b * n * n * (n + 2 * len(seeds)))
    if left.any():
        in_row_blocks(lambda low, high: join_rows(*arrays, low, high, *more), b, b * n**4 * len(seeds))
    return heads


register_sampler(sample, lambda arcs, *_: (arcs.shape[1] - 1,))
best, top = search_operators("arborescence", best_rows, top_rows, power=2)
