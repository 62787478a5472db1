r"""Alignment units of two alphabets, learned from pairs of strings by expectation maximization.

.. math::  p(x, y) = \sum_{u_1 \dots u_k\,:\,x, y} \prod_i p(u_i)

A unit pairs a substring of the source with a substring of the target, such as ``ph`` with ``F``. Jiampojamarn et al.
(2007), section 2; Bisani & Ney (2008), section 3. Works on ids, from 1, not on symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catena.errors import ConfigError, DataError, LimitError
from catena.kernels.common.threads import in_row_blocks

SymbolArray = NDArray[np.int32]
OffsetArray = NDArray[np.int64]
_Doubles = NDArray[np.float64]
_Piece = tuple[int, ...]
JointUnit = tuple[_Piece, _Piece]
"""(ids of the source, ids of the target); one of the two may be empty."""

_MOST_UNITS = 40_000_000
_FREE = -1
"""The key of an empty slot of a table of units, as in :mod:`catena.kernels.joint.cpu_align`."""


@dataclass(frozen=True)
class Moves:
    """The shapes of units.

    Args:
        source: the largest number of source symbols in a unit.
        target: the largest number of target symbols in a unit.
        both: whether a unit may have several symbols of both sides.
        deletions: whether a unit may have a source symbol and no target symbol.
        insertions: whether a unit may have a target symbol and no source symbol.
    """

    source: int = 2
    target: int = 2
    both: bool = False
    deletions: bool = True
    insertions: bool = False

    def __post_init__(self) -> None:
        for name, length in (("source", self.source), ("target", self.target)):
            if length < 1:
                raise ConfigError(f"{name} must be at least 1 symbol, got {length}. Use 1 or more.")

    def pairs(self) -> list[tuple[int, int]]:
        """Return all pairs (number of source symbols, number of target symbols)."""
        sizes = itertools.product(range(1, self.source + 1), range(1, self.target + 1))
        found = [(a, b) for a, b in sizes if self.both or a == 1 or b == 1]
        return [*found, *[(1, 0)] * self.deletions, *[(0, 1)] * self.insertions]


@dataclass(frozen=True, eq=False)
class AlignedPairs:
    """Pairs of strings as flat arrays; pair r ends at ``x_ends[r]`` and ``y_ends[r]``."""

    xs: SymbolArray
    x_ends: OffsetArray
    ys: SymbolArray
    y_ends: OffsetArray

    def __post_init__(self) -> None:
        for name, ids, ends in (("xs", self.xs, self.x_ends), ("ys", self.ys, self.y_ends)):
            if ids.ndim != 1 or (len(ids) and ids.min() < 1):
                raise DataError(f"{name} must be a vector of ids from 1, got {ids.min()}. Number symbols from 1.")
            edges = np.concatenate(([0], ends, [len(ids)]))
            if (np.diff(edges) < 0).any() or (len(ends) and ends[-1] != len(ids)):
                raise DataError(
                    f"The ends of {name} must rise to {len(ids)}, its length, got {ends.tolist()[:20]}. Use Pairs.of."
                )
        if len(self.x_ends) != len(self.y_ends):
            raise DataError(
                f"x_ends and y_ends must have one length, got {len(self.x_ends)} and {len(self.y_ends)}. Use Pairs.of."
            )

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> AlignedPairs:
        ends = [np.cumsum([len(pair[side]) for pair in pairs], dtype=np.int64) for side in (0, 1)]
        flat = [np.fromiter((id for pair in pairs for id in pair[side]), np.int32) for side in (0, 1)]
        return cls(flat[0], ends[0], flat[1], ends[1])

    def __len__(self) -> int:
        return len(self.x_ends)


class Aligner:
    """Unit probabilities, and alignments based on them.

    Args:
        pairs: the training pairs. All units that some segmentation of a pair uses are included.
        moves: the shapes of units.
    """

    def __init__(self, pairs: AlignedPairs, moves: Moves) -> None:
        if len(pairs) == 0:
            raise DataError("pairs is empty. Pass at least one pair of strings.")
        self.pairs, self.moves = pairs, moves
        self._bases = [int(ids.max(initial=0)) + 1 for ids in (pairs.xs, pairs.ys)]
        if self._bases[0] ** moves.source * self._bases[1] ** moves.target >= 2**62:
            raise LimitError(
                f"Units of up to {moves.source} of {self._bases[0] - 1:,} and {moves.target} of {self._bases[1] - 1:,} "
                f"symbols are too many for 64-bit ids. Use shorter units."
            )
        take, give = zip(*moves.pairs(), strict=True)
        self._moves = (np.array(take, np.int64), np.array(give, np.int64))
        self._sizes = np.array([self._bases[0], moves.source, self._bases[1], moves.target], np.int64)
        self.table = self._gathered()
        known = self.table != _FREE
        self.log_probs: _Doubles = np.where(known, -np.log(known.sum()), -np.inf)

    def _gathered(self) -> OffsetArray:
        from catena.kernels.joint.cpu_align import collect_units

        size = 1 << 16
        while size <= 2 * _MOST_UNITS:
            table = np.full(size, _FREE, np.int64)
            if collect_units(*self._arrays, table, size // 2) >= 0:
                return table
            size *= 4
        raise LimitError(f"There are more than {_MOST_UNITS:,} units. Use shorter units or fewer pairs.")

    @property
    def _arrays(
        self,
    ) -> tuple[SymbolArray, OffsetArray, SymbolArray, OffsetArray, OffsetArray, OffsetArray, OffsetArray]:
        p = self.pairs
        return p.xs, p.x_ends, p.ys, p.y_ends, *self._moves, self._sizes

    def log_likelihoods(self) -> _Doubles:
        """Return log p(x, y) of each pair, -inf if it cannot be aligned."""
        return self._expected()[1]

    def step(self) -> float:
        """Run one round of expectation maximization and return the previous log-likelihood of the alignable pairs."""
        counts, totals = self._expected()
        if not counts.sum() > 0:
            raise DataError(
                f"No pair can be aligned with units of {self.moves.source} and {self.moves.target} symbols. Allow "
                "longer units, deletions or insertions."
            )
        with np.errstate(divide="ignore"):
            self.log_probs = np.log(counts / counts.sum())
        return float(totals[np.isfinite(totals)].sum())

    def _expected(self) -> tuple[_Doubles, _Doubles]:
        from catena.kernels.joint.cpu_align import expected_counts

        self._check_log_probs()
        totals = np.full(len(self.pairs), -np.inf)
        shares: list[_Doubles] = []

        def run(low: int, high: int) -> None:
            own = np.zeros(len(self.table))
            expected_counts(*self._arrays, self.table, self.log_probs, low, high, own, totals)
            shares.append(own)

        work = int(np.diff(self.pairs.x_ends, prepend=0) @ np.diff(self.pairs.y_ends, prepend=0)) * 100
        in_row_blocks(run, len(self.pairs), work)
        return np.sum(shares, axis=0), totals

    def best(self, penalty: float = 1.0) -> list[list[JointUnit] | None]:
        """Return the best segmentation of each pair into units, or None if it has none.

        Args:
            penalty: log p(u) is multiplied by the length of the longer side to this power. With 0, long units win over
                equally good short ones, because fewer of them are needed.
        """
        from catena.kernels.joint.cpu_align import best

        self._check_log_probs()
        lengths = np.empty(len(self.pairs), np.int64)
        found = np.empty(len(self.pairs.xs) + len(self.pairs.ys), np.int64)
        units = self.units()
        weights = np.full(len(self.table), -np.inf)
        for slot, (x, y) in units.items():
            weights[slot] = self.log_probs[slot] * max(len(x), len(y)) ** penalty
        work = int(np.diff(self.pairs.x_ends, prepend=0) @ np.diff(self.pairs.y_ends, prepend=0)) * 50
        run = lambda low, high: best(*self._arrays, self.table, weights, low, high, found, lengths)  # noqa: E731
        in_row_blocks(run, len(self.pairs), work)
        starts = np.concatenate(([0], self.pairs.x_ends + self.pairs.y_ends)).tolist()
        return [
            None if n < 0 else [units[slot] for slot in found[start : start + n].tolist()]
            for start, n in zip(starts, lengths.tolist(), strict=False)
        ]

    def _check_log_probs(self) -> None:
        """Raise DataError for log-probabilities that kernels cannot handle; nan would count as impossible."""
        if self.log_probs.shape != self.table.shape or self.log_probs.dtype != np.float64:
            raise DataError(
                f"log_probs must be {len(self.table)} float64, one for each entry of the table, got "
                f"{self.log_probs.dtype} of shape {list(self.log_probs.shape)}. Change a copy of it."
            )
        if not self.log_probs.max() < np.inf:
            raise DataError("log_probs must be finite or -inf, got nan or +inf. Correct them, or make a new Aligner.")

    def units(self) -> dict[int, JointUnit]:
        """Return the units with positive probability, by index."""
        slots = np.flatnonzero((self.table != _FREE) & (self.log_probs > -np.inf))
        digits = self.table[slots]
        columns: list[OffsetArray] = []
        for base, most in ((self._bases[1], self.moves.target), (self._bases[0], self.moves.source)):
            for _ in range(most):
                columns.append(digits % base)
                digits = digits // base
        rows = np.stack(columns[::-1], axis=-1).tolist() if len(slots) else []
        cut = self.moves.source
        return {
            slot: (tuple(s for s in row[:cut] if s), tuple(t for t in row[cut:] if t))
            for slot, row in zip(slots.tolist(), rows, strict=True)
        }
