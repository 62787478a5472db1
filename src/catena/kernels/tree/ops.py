"""Torch operators for span trees on the CPU: log Z and its gradient, the best, the k best, and samples.

Rows of the batch are on the first axis: ``scores`` are ``[b, t, t, k]``. All computation is in float64, for every
dtype. The scores and the probability of each span, ``[b, t (t + 1) / 2]``, by first and then by last word, are saved
for the backward pass. The fractions of its labels are recomputed from the scores. Trees are rows ``(first, last,
label)`` in preorder, ``[2 t - 1, 3]``. A sample takes ``[3 t]`` uniform numbers.

The loops are in :mod:`catena.kernels.tree.cpu` and :mod:`catena.kernels.tree.cpu_search`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.common.ops import as_array, as_lengths
from catena.kernels.common.searches import RowSearches
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.tree.cpu import LANES, ROOM, share_rows, sum_rows
from catena.kernels.tree.cpu_search import best_rows, sample_rows, top_rows
from catena.kernels.tree.reference import log_partition_reference
from catena.numerics import NEG_INF


def log_partition(scores: Tensor, lengths: Tensor) -> Tensor:
    """log Z of every row."""
    return SUMS.log_partition(scores, lengths)


def log_partition_and_marginals(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log Z of every row, and the probability of every labeled span."""
    return SUMS.log_partition_and_marginals(scores, lengths)


def _sum(keep: bool, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    b, t, _, k = scores.shape
    array = as_array(scores)
    sizes = as_lengths(lengths, t)
    log_z = np.empty(b)
    spans = np.empty((b, t * (t + 1) // 2) if keep else (1, 1), array.dtype)
    lanes = max(1, min(LANES, b, ROOM // (t * t)))
    work = b * t**2 * (t + 3 * k)
    in_row_blocks(lambda low, high: sum_rows(array, sizes, low, high, keep, lanes, log_z, spans), b, work)
    return torch.from_numpy(log_z.astype(array.dtype)), torch.from_numpy(spans)


def _kept(scores: Tensor, lengths: Tensor) -> tuple[Tensor]:
    b, t = scores.shape[:2]
    return (scores.new_empty(b, t * (t + 1) // 2),)


def _gradients(scale: Tensor, scores: Tensor, lengths: Tensor, spans: Tensor) -> tuple[Tensor]:
    arrays = (as_array(scores), as_array(scale), as_array(spans))
    gradient = np.zeros(scores.shape, arrays[0].dtype)
    in_row_blocks(lambda low, high: share_rows(*arrays, low, high, gradient), len(scores), 3 * scores.numel())
    return (torch.from_numpy(gradient),)


def _arrays(scores: Tensor, lengths: Tensor) -> tuple[Any, ...]:
    """Float64 scores and lengths that fit, and no trees for rows that have a score of nan or +inf."""
    scores = scores.detach().double()
    wrong = _invalid_rows(scores, lengths)
    if wrong is not None:
        scores = torch.where(wrong[:, None, None, None], NEG_INF, scores)
    return scores.contiguous().numpy(), lengths.clamp(0, scores.shape[1]).contiguous().numpy()


def _invalid_rows(scores: Tensor, lengths: Tensor) -> Tensor | None:
    """True for rows in which the score of a span is nan or +inf, for which loops would not end; None for none."""
    if scores.numel() == 0 or float(scores.amax()) < torch.inf:
        return None
    positions = torch.arange(scores.shape[1])
    read = (positions[:, None] <= positions) & (positions < lengths[:, None, None])
    return ~(torch.where(read[..., None], scores, NEG_INF).flatten(1).amax(1) < torch.inf)


def _count_work(scores: Tensor, lengths: Tensor) -> int:
    b, t, _, k = scores.shape
    return b * t * t * (t + k)


SUMS = RowSums("tree", log_partition_reference, 1, sum_rows=_sum, kept=_kept, n_kept=1, gradients=_gradients)
_SEARCHES = RowSearches(
    "tree",
    log_partition_reference,
    arrays=_arrays,
    shape=lambda scores, _: (2 * scores.shape[1] - 1, 3),
    work=_count_work,
)
best = _SEARCHES.best(best_rows)
top = _SEARCHES.top(top_rows)
sample = _SEARCHES.sample(sample_rows)
