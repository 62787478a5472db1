"""Torch operators for alignments on the CPU: log Z and its gradient, the best, the k best, and samples.

Rows of the batch are on the first axis: ``substitutions`` are ``[b, s, t]``, ``insertions`` ``[b, s + 1, t]`` or
``[b, 1, t]``, ``deletions`` ``[b, s, t + 1]`` or ``[b, s, 1]``. All computation is in float64, for every dtype. The
marginals, as many numbers as there are scores, are saved for the backward pass. Alignments are lists of operations,
``[s + t]``: 0 substitutes, 1 inserts, 2 deletes, and -1 fills the rest. A sample takes ``[s + t]`` uniform numbers.

The loops are in :mod:`catena.kernels.alignment.cpu` and :mod:`catena.kernels.alignment.cpu_search`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.alignment.cpu import sum_rows
from catena.kernels.alignment.cpu_search import best_rows, sample_rows, top_rows
from catena.kernels.alignment.reference import log_partition_reference
from catena.kernels.common.searches import RowSearches
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks


def log_partition(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """log Z of every row."""
    return SUMS.log_partition(substitutions, insertions, deletions, n_source, n_target)


def log_partition_and_marginals(
    substitutions: Tensor, insertions: Tensor, deletions: Tensor, n_source: Tensor, n_target: Tensor
) -> tuple[Tensor, ...]:
    """log Z of every row, and the probability of every substitution, insertion and deletion."""
    log_z, marginals = SUMS.log_partition_and_marginals(substitutions, insertions, deletions, n_source, n_target)
    return log_z, *marginals


def as_arrays(*arguments: Tensor) -> tuple[Any, ...]:
    """Contiguous arrays of three scores, and lengths that fit."""
    first, second, third, n_source, n_target = (x.detach() for x in arguments)
    n_source = n_source.clamp(0, first.shape[1])
    n_target = n_target.clamp(0, first.shape[2])
    return tuple(x.contiguous().numpy() for x in (first, second, third, n_source, n_target))


def as_wide_arrays(first: Tensor, second: Tensor, third: Tensor, n_source: Tensor, n_target: Tensor) -> tuple[Any, ...]:
    """The same with scores in float64."""
    return as_arrays(first.double(), second.double(), third.double(), n_source, n_target)


def count_work(first: Tensor, *others: Tensor) -> int:
    """The number of multiplications of a sum over alignments: about 10 for each point of the grid."""
    b, s, t = first.shape
    return 10 * b * s * t


def _sum(keep: bool, *arguments: Tensor) -> tuple[Tensor, ...]:
    log_z = torch.empty(len(arguments[0]), dtype=torch.float64)
    marginals = [torch.zeros(x.shape if keep else (1, 1, 1), dtype=x.dtype) for x in arguments[:3]]
    arrays = as_arrays(*arguments)
    results = [x.numpy() for x in (log_z, *marginals)]
    in_row_blocks(lambda low, high: sum_rows(*arrays, low, high, keep, *results), len(log_z), count_work(*arguments))
    return log_z.to(arguments[0].dtype), *marginals


def _length(substitutions: Tensor, *others: Tensor) -> tuple[int]:
    _, s, t = substitutions.shape
    return (s + t,)


SUMS = RowSums(
    "alignment",
    log_partition_reference,
    3,
    sum_rows=_sum,
    kept=lambda *arguments: tuple(x.new_empty(x.shape) for x in arguments[:3]),
    n_kept=3,
)
_SEARCHES = RowSearches("alignment", log_partition_reference, arrays=as_wide_arrays, shape=_length, work=count_work)
best = _SEARCHES.best(best_rows)
top = _SEARCHES.top(top_rows)
sample = _SEARCHES.sample(sample_rows)
