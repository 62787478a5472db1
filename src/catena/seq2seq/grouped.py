"""Encoded sources for the rows of a search, without a copy for each row.

A state has the same number of adjacent rows for each source, so the hypotheses of a beam are several queries to one
source. Sources without rows are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ShapeError
from catena.shapes import cat_padded, last_real

Projected = tuple[Float[Tensor, "b h s d_keys"], Float[Tensor, "b h s d_values"]]
"""The keys and values of sources for one attention layer."""


@dataclass(frozen=True, eq=False, slots=True)
class GroupedKeyValues:
    """The keys and values of sources for all layers.

    Args:
        projected: keys and values of each layer.
        mask: True at real positions.
        whole: whether all positions are real.
    """

    projected: list[Projected]
    mask: Bool[Tensor, "b s"]
    whole: bool

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def may_look(self) -> Bool[Tensor, "b 1 s"] | None:
        return None if self.whole else self.mask[:, None]

    def select(self, rows: Int[Tensor, " m"]) -> GroupedKeyValues:
        """The given sources; this object itself if they are all of them."""
        if len(rows) == len(self) and bool((rows == torch.arange(len(self), device=rows.device)).all()):
            return self
        return GroupedKeyValues(
            [(keys[rows], values[rows]) for keys, values in self.projected], self.mask[rows], self.whole
        )

    @staticmethod
    def join(several: Sequence[GroupedKeyValues]) -> GroupedKeyValues:
        """Several sources, concatenated and padded to the longest."""
        layers = [tuple(zip(*layer, strict=True)) for layer in zip(*(s.projected for s in several), strict=True)]
        if len({s.mask.shape[1] for s in several}) == 1:
            projected = [(torch.cat(keys), torch.cat(values)) for keys, values in layers]
            return GroupedKeyValues(projected, torch.cat([s.mask for s in several]), all(s.whole for s in several))
        mask = cat_padded([s.mask for s in several], fill=False)
        s = last_real(mask)
        projected = [(cat_padded(keys)[:, :, :s], cat_padded(values)[:, :, :s]) for keys, values in layers]
        return GroupedKeyValues(projected, mask[:, :s], whole=False)

    def of_rows(self, each: int, rows: Int[Tensor, " m"]) -> GroupedKeyValues:
        """The sources of some rows, if each source has ``each`` adjacent rows."""
        of = rows // each
        return self.select(of[:: equal_runs(of)])

    @staticmethod
    def of_states(states: Sequence[tuple[GroupedKeyValues, int]]) -> GroupedKeyValues:
        """The sources of several states, concatenated, given the number of rows of each source in them."""
        least = math.gcd(*(each for _, each in states))
        several = []
        for sources, each in states:
            rows = torch.arange(len(sources), device=sources.mask.device)
            several.append(sources.select(rows.repeat_interleave(each // least)))
        return GroupedKeyValues.join(several)


def live_sources(of: Sequence[Int[Tensor, " _"]]) -> tuple[list[Int[Tensor, " _"]], Int[Tensor, " n"]]:
    """The sources with rows in each of several states, and the source index of all rows among these.

    Args:
        of: the source of each row of each state.
    """
    live, numbers, first = [], [], 0
    for own in of:
        used, number = own.unique(return_inverse=True)
        live.append(used)
        numbers.append(number + first)
        first += len(used)
    return live, torch.cat(numbers)


def check_rows(n: int, b: int) -> None:
    """Raise ShapeError unless a search begins with one row for each source."""
    if n != b:
        raise ShapeError(f"n must be {b}, the number of sources, in start, got {n}. Select more rows afterwards.")


def equal_runs(of: Int[Tensor, " n"]) -> int:
    """The largest k such that equal numbers come in runs of k, or of a multiple of it."""
    _, counts = of.unique_consecutive(return_counts=True)
    return max(1, math.gcd(*counts.tolist()))
