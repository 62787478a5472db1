"""Torch operators for the best tag sequences, the k best, and samples on the CPU.

Arguments are as in :mod:`catena.kernels.chain.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.kernels.chain.arrays import Chains, FloatArray
from catena.kernels.chain.cpu import KEEP_FORWARD
from catena.kernels.chain.cpu_search import best_rows, sample_rows, top_rows
from catena.kernels.chain.reference import log_partition_reference
from catena.kernels.common.ops import as_array, register_sampler, torch_operator
from catena.kernels.common.searches import RowSearches
from catena.kernels.common.threads import in_row_blocks


def _arrays(*arguments: Tensor) -> tuple[Any, ...]:
    chains = Chains.of(*arguments)
    return chains.emissions, chains.tables, chains.start, chains.end, chains.lengths, *chains.sharing


def _length(emissions: Tensor, *others: Tensor) -> tuple[int]:
    return (emissions.shape[1],)


_SEARCHES = RowSearches(
    "chain",
    log_partition_reference,
    arrays=_arrays,
    shape=_length,
    work=lambda emissions, *_: emissions.numel() * emissions.shape[2],
)
best = _SEARCHES.best(best_rows)
top = _SEARCHES.top(top_rows)


@torch_operator("chain_sample")
def sample(emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor, uniforms: Tensor) -> Tensor:
    """Tag sequences sampled from each row, ``[n, b, t]``, with uniform numbers of that shape."""
    emissions, tables, start, end = (x.detach().double() for x in (emissions, tables, start, end))
    chains = Chains.of(emissions, tables, start, end, lengths)
    numbers = as_array(uniforms)
    log_z, _, a, _, exact = chains.summed(KEEP_FORWARD)
    tags = _sampled(chains, log_z, a, chains.leveled()[2], numbers, logs=False)
    if not exact.all():
        rows = np.flatnonzero(~exact)
        rest = chains.those(rows)
        log_z, _, alpha, _ = rest.in_logs(np.ones(len(rows)))
        tags[:, rows] = _sampled(rest, log_z, alpha, rest.tables, numbers[:, rows].copy(), logs=True)
    return torch.from_numpy(tags)


register_sampler(sample, _length)


def _sampled(
    chains: Chains, log_z: FloatArray, a: FloatArray, tables: FloatArray, uniforms: FloatArray, logs: bool
) -> FloatArray:
    each, stride, _ = chains.sharing
    tags = np.empty(uniforms.shape, np.int64)
    b, t, k = a.shape
    in_row_blocks(
        lambda low, high: sample_rows(a, tables, each, stride, chains.lengths, low, high, logs, log_z, uniforms, tags),
        b, 4 * len(uniforms) * b * t * k,
    )  # fmt: skip
    return tags
