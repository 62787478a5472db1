"""Chains as the loops of :mod:`catena.kernels.chain.cpu` read them: numpy arrays, rows of a batch on the first axis.

Arrays rather than tensors, since a batch of chains is summed in the time of a few dozen operations of torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catena.kernels.chain.cpu import (
    BOTH_WAYS,
    LIMITS,
    ONE_WAY,
    count_pairs,
    forward_backward_rows,
    normalize_transitions,
    weigh_pairs,
)
from catena.kernels.chain.cpu_logs import log_rows
from catena.kernels.common.ops import as_array, as_lengths
from catena.kernels.common.threads import in_row_blocks

FloatArray = NDArray[Any]
FEW_PAIRS = 2**17
"""Multiplications below which one compiled loop over positions is faster than a matrix product and its preparation."""


@dataclass(frozen=True, slots=True)
class Chains:
    """A batch of chains.

    Args:
        emissions: ``[b, t, k]``.
        tables: ``[g, k, k]``, each shared by ``b / g`` consecutive rows, or ``[b t, k, k]`` where they are stepped.
        start: ``[g, k]`` for some ``g``, as for the transitions.
        end: as for ``start``.
        lengths: ``[b]``, from 0 to t.
        stepped: whether each position has a table of its own.
    """

    emissions: FloatArray
    tables: FloatArray
    start: FloatArray
    end: FloatArray
    lengths: FloatArray
    stepped: bool

    @classmethod
    def of(cls, emissions: Tensor, tables: Tensor, start: Tensor, end: Tensor, lengths: Tensor) -> Chains:
        """Tensors as :mod:`catena.kernels.chain.ops` takes them, what all rows share with or without a first axis."""
        t, k = emissions.shape[1:]
        given = as_lengths(lengths, t)
        stepped = tables.dim() == 4
        start_ = as_array(start).reshape(-1, k)
        end_ = as_array(end).reshape(-1, k)
        return cls(as_array(emissions), as_array(tables).reshape(-1, k, k), start_, end_, given, stepped)

    @property
    def sharing(self) -> tuple[int, int, int]:
        """(rows that share a table, tables from one position to the next, rows that share a start and an end)."""
        b = len(self.emissions)
        return 1 if self.stepped else b // len(self.tables), int(self.stepped), b // len(self.start)

    def leveled(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """(the greatest of each column and the starts, tables less that, their exponentials, transposed too)."""
        tables = self.tables
        edges = len(self.start)
        entry = np.empty((len(tables) + edges, tables.shape[2]), tables.dtype)
        entry[-edges:] = self.start
        moves, matrix, matrix_t = (np.empty(tables.shape, tables.dtype) for _ in range(3))
        normalize_transitions(tables, entry, moves, matrix, matrix_t)
        return entry, moves, matrix, matrix_t

    def summed(self, keep: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """(log Z, marginals, forward weights, onward weights, whether each row is exact)."""
        b, t, k = self.emissions.shape
        each, stride, each_edge = self.sharing
        lengths = self.lengths
        order = np.arange(b)
        # Rows of one table stay together, long ones first, so that four of a kind go through it.
        if stride == 0 and b > 1 and lengths.min() != lengths.max():
            order = np.lexsort((-lengths, order // each))
        dtype = self.emissions.dtype
        small = (1, 1, 1)
        large = (b, t, k)
        log_z = np.empty(b)
        exact = np.empty(b, np.bool_)
        a = np.empty(large if keep > ONE_WAY else small, dtype)
        marginals, onward = (np.empty(large if keep == BOTH_WAYS else small, dtype) for _ in range(2))
        entry, moves, matrix, matrix_t = self.leveled()

        def run(low: int, high: int) -> None:
            forward_backward_rows(
                self.emissions, entry, self.end, moves, matrix, matrix_t, order, each, stride, each_edge, lengths, low,
                high, keep, log_z, exact, a, marginals, onward, *LIMITS[dtype],
            )  # fmt: skip

        in_row_blocks(run, b, b * t * k * k * (2 if keep == BOTH_WAYS else 1))
        return log_z, marginals, a, onward, exact

    def in_logs(self, scale: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """(log Z, marginals, logs of the forward weights, scale × expected pairs), in log space and float64."""
        log_z = np.empty(len(self.emissions))
        alpha = np.empty_like(self.emissions)
        marginals = np.empty_like(self.emissions)
        pairs = np.zeros_like(self.tables)
        scores = (self.emissions, self.start, self.end, self.tables)
        log_rows(*scores, *self.sharing, self.lengths, scale, log_z, alpha, marginals, pairs)
        return log_z, marginals, alpha, pairs

    def expected_pairs(self, a: FloatArray, onward: FloatArray, scale: FloatArray) -> FloatArray:
        """Scale × expected pairs for each table, from the forward and the onward weights."""
        b, t, k = a.shape
        if not self.stepped and b * t * k * k <= FEW_PAIRS:
            few: FloatArray = np.zeros(self.tables.shape, a.dtype)
            count_pairs(self.tables, a, onward, np.ascontiguousarray(scale), few)
            return few
        times = scale[0]
        if scale.strides[0] != 0 and not (scale == times).all():
            onward = onward * scale[:, None, None]
            times = scale.dtype.type(1)
        if self.stepped:
            counts: FloatArray = np.zeros((b, t, k, k), a.dtype)
            np.multiply(a[:, :-1, :, None], onward[:, :-1, None, :], out=counts[:, 1:])
        else:
            rows = (len(self.tables), -1, k)
            left = torch.from_numpy(a.reshape(rows))
            right = torch.from_numpy(onward.reshape(rows))
            counts = np.empty((len(left), k, k), a.dtype)
            torch.bmm(left.transpose(1, 2), right, out=torch.from_numpy(counts))  # with out, autocast has no say
        counts = counts.reshape(self.tables.shape)
        # Of a sum or a mean over rows the result is scaled, not its parts.
        weigh_pairs(self.tables, times, counts)
        return counts

    def groups(self) -> FloatArray:
        """For each row the numbers of its tables: one, or ``t``."""
        each, stride, _ = self.sharing
        b, t, _ = self.emissions.shape
        return np.arange(b * t).reshape(b, t) if stride else np.arange(b)[:, None] // each

    def those(self, rows: FloatArray) -> Chains:
        """Some of the rows, in float64, each with tables of its own."""
        edge = rows // self.sharing[2]
        tables = self.tables[self.groups()[rows].reshape(-1)]
        scores = (self.emissions[rows], tables, self.start[edge], self.end[edge])
        emissions, tables, start, end = (x.astype(np.float64) for x in scores)
        return Chains(emissions, tables, start, end, self.lengths[rows], self.stepped)


@dataclass(frozen=True)
class Float64Retry:
    """Rows for which the range of their floats did not suffice, done with more."""

    rows: FloatArray
    log_z: FloatArray
    marginals: FloatArray
    pairs: FloatArray
    """``[n, k, k]``, or ``[n t, k, k]`` where each position has a table; scaled."""

    @classmethod
    def of(cls, chains: Chains, exact: FloatArray, scale: FloatArray) -> Float64Retry:
        """The rows that are not exact: float32 is repeated in float64, float64 in log space."""
        rows = np.flatnonzero(~exact)
        wide = chains.those(rows)
        scale = scale[rows].astype(np.float64)
        if chains.emissions.dtype == np.float64:
            log_z, marginals, _, pairs = wide.in_logs(scale)
            return cls(rows, log_z, marginals, pairs)
        log_z, marginals, a, onward, fits = wide.summed(BOTH_WAYS)
        pairs = wide.expected_pairs(a, onward, scale)
        if np.count_nonzero(fits) < len(fits):
            rest = cls.of(wide, fits, scale)
            log_z[rest.rows] = rest.log_z
            marginals[rest.rows] = rest.marginals
            pairs[wide.groups()[rest.rows].reshape(-1)] = rest.pairs
        return cls(rows, log_z, marginals, pairs)
