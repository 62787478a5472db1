"""⊕ sums over groups of entries of the last axis, differentiable and in any semiring."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from catena.numerics import NEG_INF
from catena.structure.semirings import Semiring

IntArray = np.ndarray

_WIDEST = 32
"""Longer groups are summed in rounds, so that one long group does not pad all of them."""


@dataclass(frozen=True)
class Segments:
    """A partition of entries into groups, prepared for sums.

    ``rounds[i][piece, :]`` are the indices of the entries of a piece, where the index after the last one is zero. Each
    round sums pieces, and ``places[g]`` is the index of the sum of group g after the last round.

    These are numpy arrays, not tensors: a tensor created inside a transform of torch.func must not leave it.
    """

    rounds: tuple[IntArray, ...]
    places: IntArray

    @classmethod
    def of(cls, group: IntArray, n: int) -> Segments:
        """Segments of ``n`` groups, where ``group[i]`` is the group of entry ``i``."""
        rounds = []
        while len(group) and np.bincount(group, minlength=n).max() > 1:
            index, group = _pieces(group)
            rounds.append(index)
        places = np.full(n, len(group), np.int64)
        places[group] = np.arange(len(group))
        return cls(tuple(rounds), places)

    def sum(self, semiring: Semiring, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        for index in self.rounds:
            x = semiring.sum(with_zero(semiring, x)[..., torch.from_numpy(index)], dim=-1)
        return with_zero(semiring, x)[..., torch.from_numpy(self.places)]


def with_zero(semiring: Semiring, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """``x`` with the neutral element of ⊕ appended to the last axis."""
    if x.dim() == 1:
        return torch.cat((x, semiring.constant(NEG_INF, x)[None]))
    return torch.cat((x, semiring.zero((*semiring.shape(x)[:-1], 1), x)), dim=-1)


def with_one(semiring: Semiring, x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """``x`` with the neutral element of ⊗ appended to the last axis, at index -1."""
    if x.dim() == 1:
        return torch.cat((x, semiring.constant(0.0, x)[None]))
    return torch.cat((x, semiring.one((*semiring.shape(x)[:-1], 1), x)), dim=-1)


def _pieces(group: IntArray) -> tuple[IntArray, IntArray]:
    """Entries of equal group, split into pieces of at most ``_WIDEST``, and the group of each piece."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    first = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]])
    size = np.diff(np.r_[first, len(group)])
    width = int(min(size.max(), _WIDEST))
    rank = np.arange(len(group)) - np.repeat(first, size)
    pieces_before = np.r_[0, np.cumsum(-(-size // width))]
    piece = np.repeat(pieces_before[:-1], size) + rank // width
    index = np.full((pieces_before[-1], width), len(group), np.int64)
    index[piece, rank % width] = order
    return index, np.repeat(sorted_group[first], -(-size // width))


def distinct(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct rows of these integer columns, sorted, as ``[column, row]``, and the row of each entry."""
    lows = [int(x.min(initial=0)) for x in columns]
    sizes = [int(x.max(initial=0)) - low + 1 for x, low in zip(columns, lows, strict=True)]
    if math.prod(sizes) >= 2**62:
        rows, group = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return rows, group.ravel()
    # One integer for each row: numpy sorts rows ten times more slowly.
    key = np.zeros(len(columns[0]), np.int64)
    for x, low, size in zip(columns, lows, sizes, strict=True):
        key = key * size + (x - low)
    keys, group = _ranked(key)
    rows = np.empty((len(columns), len(keys)), np.int64)
    for i in range(len(columns) - 1, -1, -1):
        keys, rows[i] = np.divmod(keys, sizes[i])
        rows[i] += lows[i]
    return rows, group


def _ranked(keys: IntArray) -> tuple[IntArray, IntArray]:
    order = np.argsort(keys)
    ordered = keys[order]
    first = np.ones(len(keys), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    group = np.empty(len(keys), np.int64)
    group[order] = np.cumsum(first) - 1
    return ordered[first], group
