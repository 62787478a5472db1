"""Constraints on segmentations: masks, **True = allowed**, combined by ``&``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.structure.constraints import intersect_masks, mask_scores


@dataclass(frozen=True, eq=False)
class SegmentConstraint:
    """Constraint on the segments and segment pairs of a :class:`SemiMarkov`. None allows everything.

    Args:
        segments: ``segments[..., i, l, y]`` is True if a segment of ``l + 1`` positions from ``i`` may have label
            ``y``.
        transitions: ``transitions[x, y]`` is True if a segment labeled ``y`` may follow one labeled ``x``.
    """

    segments: Bool[Tensor, "*batch t m k"] | None = None
    transitions: Bool[Tensor, "k k"] | None = None

    @classmethod
    def fixing(cls, known: Int[Tensor, "*batch n 3"], t: int, m: int, k: int) -> SegmentConstraint:
        """Constraint from a partial annotation: every segmentation must contain the known segments.

        Args:
            known: rows (begin, end, label). A label of -1 allows any label. Rows of -1 are padding.
            t: number of positions.
            m: largest number of positions of a segment.
            k: number of labels.
        """
        begin = torch.arange(t, device=known.device)[:, None, None]
        end = begin + torch.arange(1, m + 1, device=known.device)[:, None]
        label = torch.arange(k, device=known.device)
        given = known[..., :, None, None, None, :]
        same = (begin == given[..., 0]) & (end == given[..., 1]) & ((label == given[..., 2]) | (given[..., 2] < 0))
        apart = (end <= given[..., 0]) | (begin >= given[..., 1])
        return cls(segments=(same | apart | (given[..., 0] < 0)).all(-4))

    def __and__(self, other: SegmentConstraint) -> SegmentConstraint:
        """The constraint that allows what both allow."""
        return SegmentConstraint(
            intersect_masks(self.segments, other.segments), intersect_masks(self.transitions, other.transitions)
        )

    def applied(
        self, segments: Float[Tensor, "*batch t m k"], transitions: Float[Tensor, "*#batch k k"] | None
    ) -> dict[str, Tensor]:
        """The score tensors that this constraint changes, with -inf where it forbids, by name."""
        changed = {}
        if self.segments is not None:
            changed["segments"] = mask_scores("segments", segments, self.segments)
        if self.transitions is not None:
            k = segments.shape[-1]
            table = segments.new_zeros(k, k) if transitions is None else transitions
            changed["transitions"] = mask_scores("transitions", table, self.transitions)
        return changed
