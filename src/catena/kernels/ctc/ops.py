"""Torch operators for CTC labelings on the CPU: log Z and its gradient, the best, the k best, and samples.

Rows of the batch are on the first axis: ``emissions`` are ``[b, t, v]``, ``targets`` ``[b, s]``, and ``n_frames`` and
``n_labels`` are the numbers of real ones. All computation is in float64, for every dtype. The probability ``[b, t, s +
1]`` that a frame belongs to each label of the target, and to a blank, is saved for the backward pass. Labelings are
``[t]``; a sample takes ``[t + 1]`` uniform numbers.

The loops are in :mod:`catena.kernels.ctc.cpu` and :mod:`catena.kernels.ctc.cpu_search`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catena.kernels.common.searches import RowSearches
from catena.kernels.common.sums import RowSums
from catena.kernels.common.threads import in_row_blocks
from catena.kernels.ctc.cpu import spread_rows, sum_rows
from catena.kernels.ctc.cpu_search import best_rows, sample_rows, top_rows
from catena.kernels.ctc.reference import log_partition_reference


def log_partition(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """log Z of every row."""
    return SUMS.log_partition(emissions, targets, n_frames, n_labels, blank)


def marginals(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """The probability of every label at every frame, ``[b, t, v]``."""
    return SUMS.log_partition_and_marginals(emissions, targets, n_frames, n_labels, blank)[1]


def state_posteriors(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> Tensor:
    """The probability that a frame belongs to each label of the target and, in the last column, to a blank."""
    return SUMS.keep_op(emissions, targets, n_frames, n_labels, blank)[1]


def _arrays(emissions: Tensor, targets: Tensor, n_frames: Tensor, n_labels: Tensor, blank: int) -> tuple[Any, ...]:
    """Contiguous arrays, and lengths that fit."""
    n_frames = n_frames.clamp(0, emissions.shape[1])
    n_labels = n_labels.clamp(0, targets.shape[1])
    return *(x.detach().contiguous().numpy() for x in (emissions, targets, n_frames, n_labels)), blank


def _count_work(emissions: Tensor, targets: Tensor, *others: Any) -> int:
    """About 10 multiplications for each label at each frame."""
    b, t, _ = emissions.shape
    return 10 * b * t * (targets.shape[1] + 1)


def _sum(keep: bool, *arguments: Any) -> tuple[Tensor, Tensor]:
    emissions, targets = arguments[:2]
    b, t, _ = emissions.shape
    log_z = torch.empty(b, dtype=torch.float64)
    posteriors = torch.zeros((b, t, targets.shape[1] + 1) if keep else (1, 1, 1), dtype=emissions.dtype)
    arrays = _arrays(*arguments)
    results = (log_z.numpy(), posteriors.numpy())
    in_row_blocks(lambda low, high: sum_rows(*arrays, low, high, keep, *results), b, _count_work(*arguments))
    if keep:
        posteriors[log_z.isnan()] = torch.nan
    return log_z.to(emissions.dtype), posteriors


def _gradients(scale: Tensor, *arguments: Any) -> tuple[Tensor]:
    *given, posteriors = arguments
    emissions = given[0]
    gradient = torch.zeros(emissions.shape, dtype=emissions.dtype)
    arrays = posteriors.contiguous().numpy(), scale.contiguous().numpy(), *_arrays(*given)[1:]
    result = gradient.numpy()
    in_row_blocks(lambda low, high: spread_rows(*arrays, low, high, result), len(emissions), 2 * posteriors.numel())
    return (gradient,)


SUMS = RowSums(
    "ctc",
    log_partition_reference,
    1,
    sum_rows=_sum,
    kept=lambda emissions, targets, *_: (emissions.new_empty(*emissions.shape[:2], targets.shape[1] + 1),),
    n_kept=1,
    gradients=_gradients,
)
_SEARCHES = RowSearches(
    "ctc",
    log_partition_reference,
    arrays=lambda emissions, *others: _arrays(emissions.double(), *others),
    shape=lambda emissions, *_: emissions.shape[1:2],
    work=_count_work,
)
best = _SEARCHES.best(best_rows)
top = _SEARCHES.top(top_rows)
sample = _SEARCHES.sample(sample_rows)
