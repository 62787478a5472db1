"""Alignments as sequences of operations, and conversions to and from 0/1 parts.

An alignment is a path over the grid of points ``(i, j)``, the numbers of consumed source and target positions. It
starts at (0, 0). A *substitution* consumes one position of each, an *insertion* one of the target, a *deletion* one of
the source. Points with the same ``i + j`` form a diagonal: a path visits at most one of them, and they only depend on
earlier diagonals. Tested in tests/structure/test_alignment_one_to_one.py and tests/structure/test_alignment.py.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from catena.structure.semirings import Semiring

SUBSTITUTE, INSERT, DELETE = 0, 1, 2
"""Codes of the operations. A match is a substitution of equal symbols; only its score differs."""


class Operations(NamedTuple):
    """One tensor for each kind of operation: scores, probabilities or 0/1 indicators."""

    substitutions: Shaped[Tensor, "*batch s t"]
    """``[..., i, j]`` aligns source position ``i`` with target position ``j``."""
    insertions: Shaped[Tensor, "*batch s1 t"]
    """``[..., i, j]`` inserts target position ``j`` after the first ``i`` source positions."""
    deletions: Shaped[Tensor, "*batch s t1"]
    """``[..., i, j]`` deletes source position ``i`` after the first ``j`` target positions."""


class AlignmentSteps(NamedTuple):
    """Sequences of operations with the point at which each starts."""

    operation: Int[Tensor, "*batch n"]
    i: Int[Tensor, "*batch n"]
    j: Int[Tensor, "*batch n"]
    s: Int[Tensor, "*batch"]
    """The number of source positions consumed at the end."""
    t: Int[Tensor, "*batch"]

    @property
    def well_formed(self) -> Bool[Tensor, "*batch"]:
        """Whether all codes are known and -1 only occurs at the end."""
        real = self.operation >= 0
        gap = real[..., 1:] & ~real[..., :-1]
        return (self.operation <= DELETE).all(-1) & ~gap.any(-1)


def operations_to_steps(y: Int[Tensor, "*batch n"]) -> AlignmentSteps:
    """The starting points of the operations of alignments."""
    down = ((y == SUBSTITUTE) | (y == DELETE)).long()
    across = ((y == SUBSTITUTE) | (y == INSERT)).long()
    i, j = down.cumsum(-1), across.cumsum(-1)
    return AlignmentSteps(y, i - down, j - across, down.sum(-1), across.sum(-1))


def gather_points(table: Shaped[Tensor, "... m n"], i: Tensor, j: Tensor) -> Shaped[Tensor, "... l"]:
    """``table[..., i, j]``, or an arbitrary entry if ``i`` or ``j`` is out of range."""
    m, n = table.shape[-2:]
    if m == 0 or n == 0:
        return table.new_zeros(i.shape)
    place = i.clamp(0, m - 1) * n + j.clamp(0, n - 1)
    return table.flatten(-2).expand(*place.shape[:-1], m * n).gather(-1, place)


def operation_mask(steps: AlignmentSteps, operation: int, m: int, n: int) -> Bool[Tensor, "*batch m n"]:
    """True at ``[..., i, j]`` if an alignment has this operation at that point."""
    here = (steps.operation == operation) & (steps.i < m) & (steps.j < n)
    place = torch.where(here, steps.i * n + steps.j, m * n)
    marks = torch.zeros(*place.shape[:-1], m * n + 1, dtype=torch.bool, device=place.device)
    return marks.scatter(-1, place, True)[..., :-1].unflatten(-1, (m, n))


def to_operations(operations: Operations) -> Int[Tensor, "*batch n"]:
    """The sequence of operations, ordered by diagonal, of 0/1 indicators of all operations."""
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
    """Elements by diagonal: ``[..., i, d]`` is ``x[..., i, d - i]``, or the semiring's zero if out of range."""
    m, n = x.shape[-2:]
    batch = semiring.shape(x)[:-2]
    wide = torch.cat((x, semiring.zero((*batch, m, m), x)), dim=-1)
    # The new rows are one entry shorter, so each row starts one entry further to the right than the row above.
    return wide.flatten(-2)[..., : m * (m + n - 1)].unflatten(-1, (m, m + n - 1)) if m else wide


def shift_right(x: Shaped[Tensor, "... n"], semiring: Semiring) -> Shaped[Tensor, "... n1"]:
    """``x`` shifted by one: the entry at ``i`` moves to ``i + 1``, and entry 0 is the semiring's zero."""
    batch = semiring.shape(x)[:-1]
    return torch.cat((semiring.zero((*batch, 1), x), x), dim=-1)
