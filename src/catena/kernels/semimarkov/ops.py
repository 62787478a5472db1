"""Torch operators for segmentations on the CPU: log Z and its gradient, the best, the k best, and samples.

Rows of the batch are on the first axis: ``segments`` are ``[b, t, m, k]``. ``tables`` ``[g, k, k]``, ``start`` and
``end`` ``[g, k]`` are each shared by ``b / g`` consecutive rows. The marginals and two tensors of ``t × k`` numbers for
each row are saved for the backward pass. Segmentations are triples (begin, end, label), ``[t, 3]``. A sample takes
``[t, 2]`` uniform numbers.

The loops are in :mod:`catena.kernels.semimarkov.cpu` and :mod:`catena.kernels.semimarkov.cpu_search`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.searches import RowSearches
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.semimarkov.cpu import expected_neighbors, sum_rows
from catena.kernels.semimarkov.cpu_search import best_rows, sample_rows, top_rows
from catena.kernels.semimarkov.reference import log_partition_reference


def log_partition(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    return SUMS.log_partition(segments, tables, start, end, lengths)


def marginals(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Tensor:
    """The probability of every segment."""
    arguments = (segments, tables, start, end, lengths)
    if not SUMS.needs_grad(*arguments):
        return SUMS.log_z_and_kept(*arguments)[1]
    return SUMS.log_partition_and_marginals(*arguments)[1][0]


def _arrays(segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> tuple[Any, ...]:
    """Contiguous arrays, all but the segments in float64; lengths that fit; the number of rows that share a table."""
    small = [x.detach().double().contiguous().numpy() for x in (tables, start, end)]
    lengths = lengths.clamp(0, segments.shape[1]).contiguous()
    return segments.detach().contiguous().numpy(), *small, lengths.numpy(), segments.shape[0] // tables.shape[0]


def _sum(
    keep: bool, segments: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, ...]:
    """log Z in the dtype of the scores, marginals, ``alpha``, ``rest``, and log Z in float64."""
    b, t, m, k = segments.shape
    own, wide, first, last, sizes, each = _arrays(segments, tables, start, end, lengths)
    arrays = (own, wide, wide.transpose(0, 2, 1).copy(), first, last, sizes, each)
    log_z = torch.empty(b, dtype=torch.float64)
    marginals = segments.new_empty(segments.shape if keep else (0, 0, 0, 0))
    alpha, rest = (torch.empty((b, t + 1, k) if keep else (0, 0, 0), dtype=torch.float64) for _ in range(2))

    def run(low: int, high: int) -> None:
        inner = (alpha, rest) if keep else [torch.empty((1, t + 1, k), dtype=torch.float64)] * 2
        results = [x.numpy() for x in (log_z, marginals, *inner)]
        sum_rows(*arrays, low, high, keep, *results)

    in_row_blocks(run, b, 4 * b * t * k * (m + k) * (3 if keep else 1))
    if keep:
        marginals[log_z.isnan()] = torch.nan
    return log_z.to(segments.dtype, copy=True), marginals, alpha, rest, log_z


def _kept(segments: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    b, t, _, k = segments.shape
    inner = (segments.new_empty((b, t + 1, k), dtype=torch.float64) for _ in range(2))
    marginals = torch.empty_like(segments, memory_format=torch.contiguous_format)
    return marginals, *inner, segments.new_empty(b, dtype=torch.float64)


def _gradients(scale: Tensor, *arguments: Tensor) -> tuple[Tensor, ...]:
    *given, marginals, alpha, rest, log_z = arguments
    segments = given[0]
    _, wide, first, last, lengths, each = _arrays(*given)
    found = [torch.zeros(x.shape, dtype=torch.float64) for x in given[1:4]]
    inner = [x.contiguous().numpy() for x in (scale.double(), log_z, alpha, rest)]
    results = [x.numpy() for x in found]
    expected_neighbors(*inner[:2], wide, first, last, lengths, each, *inner[2:], *results)
    by_tables, by_start, by_end = (x.to(segments.dtype, copy=True) for x in found)
    return marginals * scale[:, None, None, None], by_tables, by_start, by_end


def _count_work(segments: Tensor, *others: Tensor) -> int:
    b, t, m, k = segments.shape
    return b * t * k * (m + k)


SUMS = RowSums("semimarkov", log_partition_reference, 4, sum_rows=_sum, kept=_kept, n_kept=4, gradients=_gradients)
_SEARCHES = RowSearches(
    "semimarkov",
    log_partition_reference,
    arrays=_arrays,
    shape=lambda segments, *_: (segments.shape[1], 3),
    work=_count_work,
)
best = _SEARCHES.best(best_rows)
top = _SEARCHES.top(top_rows)
sample = _SEARCHES.sample(sample_rows)
