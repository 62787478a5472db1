"""Constraints on alignments: forbidden cells, required cells, a band around the diagonal.

A constraint holds masks, **True = allowed**. Combine two by ``&``. A required cell forbids every other operation that
consumes one of its two positions. That is equivalent, because each position is consumed exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ShapeError
from catena.structure.constraints import intersect_masks, mask_scores


@dataclass(frozen=True, eq=False)
class AlignmentConstraint:
    """Constraint on the operations of an :class:`Alignment`. None allows everything.

    Args:
        substitutions: ``[..., i, j]`` is True if source position ``i`` may be aligned with target position ``j``.
        insertions: ``[..., i, j]`` is True if target position ``j`` may be inserted before source position ``i``.
        deletions: ``[..., i, j]`` is True if source position ``i`` may be deleted before target position ``j``.
    """

    substitutions: Bool[Tensor, "*batch s t"] | None = None
    insertions: Bool[Tensor, "*batch i j"] | None = None
    deletions: Bool[Tensor, "*batch m n"] | None = None

    @classmethod
    def forbidding(cls, pairs: Int[Tensor, "*batch n c"], s: int, t: int) -> AlignmentConstraint:
        """Constraint that no alignment aligns these positions.

        Args:
            pairs: rows ``(source, target)``. Rows of -1 are padding.
            s: number of source positions.
            t: number of target positions.
        """
        rows, columns = hits(pairs, s, t)
        return cls(substitutions=~(rows & columns).any(-3))

    @classmethod
    def fixing(cls, pairs: Int[Tensor, "*batch n c"], s: int, t: int) -> AlignmentConstraint:
        """Constraint that every alignment aligns these positions.

        Args:
            pairs: rows ``(source, target)``. Rows of -1 are padding.
            s: number of source positions.
            t: number of target positions.
        """
        rows, columns = hits(pairs, s, t)
        return cls(
            substitutions=~(rows ^ columns).any(-3),
            insertions=~columns.any(-3).expand(*columns.shape[:-3], s + 1, t),
            deletions=~rows.any(-3).expand(*rows.shape[:-3], s, t + 1),
        )

    @classmethod
    def band(cls, s: int, t: int, width: int) -> AlignmentConstraint:
        """Constraint to points at most ``width`` positions from the diagonal. Sakoe & Chiba (1978)."""
        i, j = torch.arange(s + 1)[:, None], torch.arange(t + 1)
        near = (i - j).abs() <= width
        return cls(substitutions=near[1:, 1:], insertions=near[:, 1:], deletions=near[1:, :])

    def __and__(self, other: AlignmentConstraint) -> AlignmentConstraint:
        """The constraint that allows what both allow."""
        return AlignmentConstraint(
            intersect_masks(self.substitutions, other.substitutions),
            intersect_masks(self.insertions, other.insertions),
            intersect_masks(self.deletions, other.deletions),
        )

    def applied(
        self,
        substitutions: Float[Tensor, "*batch s t"],
        insertions: Float[Tensor, "*batch i t"],
        deletions: Float[Tensor, "*batch s j"],
    ) -> dict[str, Tensor]:
        """The score tensors that this constraint changes, with -inf where it forbids, by name."""
        scores = {"substitutions": substitutions, "insertions": insertions, "deletions": deletions}
        masks = {name: getattr(self, name) for name in scores}
        return {name: mask_scores(name, scores[name], mask) for name, mask in masks.items() if mask is not None}


def hits(pairs: Tensor, s: int, t: int) -> tuple[Tensor, Tensor]:
    """For each pair, masks of its row, ``[..., n, s, 1]``, and of its column, ``[..., n, 1, t]``."""
    if pairs.dim() < 2 or pairs.shape[-1] != 2:
        raise ShapeError(
            f"pairs must have shape [*batch, n, 2] with rows (source, target), got {list(pairs.shape)}. Add the axis n "
            "for a single pair."
        )
    wrong = (pairs >= torch.tensor([s, t], device=pairs.device)).any(-1) | ((pairs < 0).any(-1) & ~(pairs < 0).all(-1))
    if bool(wrong.any()):
        i, j = pairs[wrong][0].tolist()
        raise ShapeError(
            f"pairs must have 0 <= source < s = {s} and 0 <= target < t = {t}, got ({i}, {j}). Count positions from 0, "
            "and pad with (-1, -1)."
        )
    i, j = pairs[..., 0, None, None], pairs[..., 1, None, None]
    rows, columns = torch.arange(s, device=pairs.device)[:, None], torch.arange(t, device=pairs.device)
    return rows == i, columns == j
