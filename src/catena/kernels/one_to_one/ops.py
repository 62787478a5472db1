"""Torch operators for one-to-one alignments on the CPU: log Z and its gradient, the best, the k best, samples.

Rows of the batch are on the first axis: ``scores`` are ``[b, s, t]``, ``source_gaps`` ``[b, s]``, ``target_gaps`` ``[b,
t]``. All computation is in float64, for every dtype. The marginals, as many numbers as there are scores, are saved for
the backward pass. Alignments are written as the partner of each source position, or -1. A sample takes ``[2 s + t]``
uniform numbers.

The loops are in :mod:`catena.kernels.one_to_one.cpu` and :mod:`catena.kernels.one_to_one.cpu_search`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catena.kernels.alignment.ops import as_arrays, as_wide_arrays, count_work
from catena.kernels.common.searches import RowSearches
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.one_to_one.cpu import sum_rows
from catena.kernels.one_to_one.cpu_search import sample_rows, top_rows
from catena.kernels.one_to_one.reference import log_partition_reference


def log_partition(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> Tensor:
    """log Z of every row."""
    return SUMS.log_partition(scores, source_gaps, target_gaps, n_source, n_target)


def log_partition_and_marginals(
    scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor
) -> tuple[Tensor, ...]:
    """log Z of every row, the probability of every pair, and the probability of each position to be unpaired."""
    log_z, marginals = SUMS.log_partition_and_marginals(scores, source_gaps, target_gaps, n_source, n_target)
    return log_z, *marginals


def best(scores: Tensor, source_gaps: Tensor, target_gaps: Tensor, n_source: Tensor, n_target: Tensor) -> Tensor:
    """The partners in the best alignment of each row, ``[b, s]``."""
    return top(scores, source_gaps, target_gaps, n_source, n_target, 1)[0][:, 0]


def _sum(keep: bool, *arguments: Tensor) -> tuple[Tensor, ...]:
    log_z = torch.empty(len(arguments[0]), dtype=torch.float64)
    marginals = [torch.zeros(x.shape if keep else (1,) * x.dim(), dtype=x.dtype) for x in arguments[:3]]
    arrays = as_arrays(*arguments)
    results = [x.numpy() for x in (log_z, *marginals)]
    in_row_blocks(lambda low, high: sum_rows(*arrays, low, high, keep, *results), len(log_z), count_work(*arguments))
    return log_z.to(arguments[0].dtype), *marginals


def _length(scores: Tensor, *others: Tensor) -> tuple[int]:
    return (scores.shape[1],)


SUMS = RowSums(
    "one_to_one",
    log_partition_reference,
    3,
    sum_rows=_sum,
    kept=lambda *arguments: tuple(x.new_empty(x.shape) for x in arguments[:3]),
    n_kept=3,
)
_SEARCHES = RowSearches("one_to_one", log_partition_reference, arrays=as_wide_arrays, shape=_length, work=count_work)
top = _SEARCHES.top(top_rows)
sample = _SEARCHES.sample(sample_rows)
