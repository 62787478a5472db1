"""Which operations an alignment may have: forbidden cells, fixed cells, a band about the diagonal.

A constraint holds masks, **True = allowed**; two of them are joined by ``&``. A cell that must be in the
alignment forbids all else that could use up its two positions: since each is used up once, that is the same.
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
    """Which operations are allowed where; the axes are those of the scores. What is None allows all.

    Args:
        substitutions: ``[..., i, j]`` is True where source position ``i`` may be aligned with target position
        ``j``.
        insertions: ``[..., i, j]`` is True where target position ``j`` may be inserted before source position
        ``i``.
        deletions: ``[..., i, j]`` is True where source position ``i`` may be deleted before target position
        ``j``.
    """

    substitutions: Bool[Tensor, "*batch s t"] | None = None
    insertions: Bool[Tensor, "*batch i j"] | None = None
    deletions: Bool[Tensor, "*batch m n"] | None = None

    @classmethod
    def forbidding(cls, pairs: Int[Tensor, "*batch n c"], s: int, t: int) -> AlignmentConstraint:
        """No alignment may align these ``(source, target)`` positions; rows of -1 forbid nothing."""
        rows, columns = hits(pairs, s, t)
        return cls(substitutions=~(rows & columns).any(-3))

    @classmethod
    def fixing(cls, pairs: Int[Tensor, "*batch n c"], s: int, t: int) -> AlignmentConstraint:
        """Every alignment must align these ``(source, target)`` positions; rows of -1 demand nothing."""
        rows, columns = hits(pairs, s, t)
        return cls(
            substitutions=~(rows ^ columns).any(-3),
            insertions=~columns.any(-3).expand(*columns.shape[:-3], s + 1, t),
            deletions=~rows.any(-3).expand(*rows.shape[:-3], s, t + 1),
        )

    @classmethod
    def band(cls, s: int, t: int, width: int) -> AlignmentConstraint:
        """Nothing may go further than ``width`` positions from the diagonal. Sakoe & Chiba (1978)."""
        i, j = torch.arange(s + 1)[:, None], torch.arange(t + 1)
        near = (i - j).abs() <= width
        return cls(substitutions=near[1:, 1:], insertions=near[:, 1:], deletions=near[1:, :])

    def __and__(self, other: AlignmentConstraint) -> AlignmentConstraint:
        """What both allow."""
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
        """The scores that this constraint changes, with -inf where it forbids."""
        scores = {"substitutions": substitutions, "insertions": insertions, "deletions": deletions}
        masks = {name: getattr(self, name) for name in scores}
        return {name: mask_scores(name, scores[name], mask) for name, mask in masks.items() if mask is not None}


def hits(pairs: Tensor, s: int, t: int) -> tuple[Tensor, Tensor]:
    """For each pair, which rows are its own, ``[..., n, s, 1]``, and which columns, ``[..., n, 1, t]``."""
    if pairs.dim() < 2 or pairs.shape[-1] != 2:
        raise ShapeError(
            f"pairs must have the axes [*batch, n, 2], rows (source, target), but their shape is {list(pairs.shape)}"
        )
    wrong = (pairs >= torch.tensor([s, t], device=pairs.device)).any(-1) | ((pairs < 0).any(-1) & ~(pairs < 0).all(-1))
    if bool(wrong.any()):
        i, j = pairs[wrong][0].tolist()
        raise ShapeError(f"a pair must have 0 <= source < s = {s} and 0 <= target < t = {t}, but one is ({i}, {j})")
    i, j = pairs[..., 0, None, None], pairs[..., 1, None, None]
    rows, columns = torch.arange(s, device=pairs.device)[:, None], torch.arange(t, device=pairs.device)
    return rows == i, columns == j
