"""Alignments as lists of operations: where each one stands, and the way from 0/1 parts to the list and back.

An alignment walks over the grid of points ``(i, j)``, which say how many source and target positions are used up. It
begins at (0, 0). To *substitute* uses up one position of each, to *insert* one of the target, to *delete* one of the
source. Points with the same ``i + j`` are a diagonal: no walk has two of them, and they depend on earlier ones alone.

Knows no scores.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from catena.structure.semirings import Semiring

SUBSTITUTE, INSERT, DELETE = 0, 1, 2
"""The codes of operations in a list. A substitution of equals is a match; only its score says so."""


class Operations(NamedTuple):
    """Something for each operation that could be done: scores, probabilities, or 0/1."""

    substitutions: Shaped[Tensor, "*batch s t"]
    """``[..., i, j]`` aligns source position ``i`` with target position ``j``."""
    insertions: Shaped[Tensor, "*batch s1 t"]
    """``[..., i, j]`` inserts target position ``j`` when ``i`` source positions are used up."""
    deletions: Shaped[Tensor, "*batch s t1"]
    """``[..., i, j]`` deletes source position ``i`` when ``j`` target positions are used up."""


class AlignmentSteps(NamedTuple):
    """Lists of operations, and the point at which each is done."""

    operation: Int[Tensor, "*batch n"]
    i: Int[Tensor, "*batch n"]
    j: Int[Tensor, "*batch n"]
    s: Int[Tensor, "*batch"]
    """The number of source positions used up at the end."""
    t: Int[Tensor, "*batch"]

    @property
    def well_formed(self) -> Bool[Tensor, "*batch"]:
        """Whether only known codes are there, and no -1 stands between two of them."""
        real = self.operation >= 0
        gap = real[..., 1:] & ~real[..., :-1]
        return (self.operation <= DELETE).all(-1) & ~gap.any(-1)


def operations_to_steps(y: Int[Tensor, "*batch n"]) -> AlignmentSteps:
    """The steps of lists of operations."""
    down = ((y == SUBSTITUTE) | (y == DELETE)).long()
    across = ((y == SUBSTITUTE) | (y == INSERT)).long()
    i, j = down.cumsum(-1), across.cumsum(-1)
    return AlignmentSteps(y, i - down, j - across, down.sum(-1), across.sum(-1))


def gather_points(table: Shaped[Tensor, "... m n"], i: Tensor, j: Tensor) -> Shaped[Tensor, "... l"]:
    """``table[..., i, j]``; whatever stands at some place where they lie outside."""
    m, n = table.shape[-2:]
    if m == 0 or n == 0:
        return table.new_zeros(i.shape)
    place = i.clamp(0, m - 1) * n + j.clamp(0, n - 1)
    return table.flatten(-2).expand(*place.shape[:-1], m * n).gather(-1, place)


def operation_mask(steps: AlignmentSteps, operation: int, m: int, n: int) -> Bool[Tensor, "*batch m n"]:
    """True at ``[..., i, j]`` where a list does this operation at that point."""
    here = (steps.operation == operation) & (steps.i < m) & (steps.j < n)
    place = torch.where(here, steps.i * n + steps.j, m * n)
    marks = torch.zeros(*place.shape[:-1], m * n + 1, dtype=torch.bool, device=place.device)
    return marks.scatter(-1, place, True)[..., :-1].unflatten(-1, (m, n))


def to_operations(operations: Operations) -> Int[Tensor, "*batch n"]:
    """The list of operations, given 0/1 for each that could be done. Its order is that of the diagonals."""
    s, t = operations.substitutions.shape[-2:]
    batch = operations.substitutions.shape[:-2]
    ends = operations.substitutions.new_zeros(len(operations), *batch, s + t + 1)
    found = []
    for code, (parts, further) in enumerate(zip(operations, (2, 1, 1), strict=True)):
        m, n = parts.shape[-2:]
        rows, columns = torch.arange(m, device=parts.device)[:, None], torch.arange(n, device=parts.device)
        diagonal = (rows + columns + further).flatten().expand(*batch, m * n)
        found.append(ends[code].scatter_add(-1, diagonal, parts.flatten(-2)))
    most, codes = torch.stack(found).max(dim=0)
    done = most[..., 1:] > 0.5
    order = (~done).to(torch.int8).argsort(dim=-1, stable=True)
    return torch.where(done, codes[..., 1:], -1).gather(-1, order)


def to_diagonals(x: Shaped[Tensor, "... m n"], semiring: Semiring) -> Shaped[Tensor, "... m d"]:
    """Elements by diagonal: ``[..., i, d]`` is ``x[..., i, d - i]``, and zero where that lies outside."""
    m, n = x.shape[-2:]
    batch = semiring.shape(x)[:-2]
    wide = torch.cat((x, semiring.zero((*batch, m, m), x)), dim=-1)
    # Rows one number shorter than they were: each begins one place further to the right than the one above.
    return wide.flatten(-2)[..., : m * (m + n - 1)].unflatten(-1, (m, m + n - 1)) if m else wide


def shift_right(x: Shaped[Tensor, "... n"], semiring: Semiring) -> Shaped[Tensor, "... n1"]:
    """One zero of the semiring put in front: what was at ``i`` comes to ``i + 1``."""
    batch = semiring.shape(x)[:-1]
    return torch.cat((semiring.zero((*batch, 1), x), x), dim=-1)
