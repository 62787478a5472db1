"""Which segments are allowed in a segmentation: masks, **True = allowed**, joined by ``&``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.structure.constraints import intersect_masks, mask_scores


@dataclass(frozen=True, eq=False)
class SegmentConstraint:
    """What is None allows all.

    Args:
        segments: ``segments[..., i, l, y]`` is True where a segment of ``l + 1`` positions from ``i`` may be a ``y``.
        transitions: ``transitions[x, y]`` is True where a segment labeled ``y`` may follow one labeled ``x``.
    """

    segments: Bool[Tensor, "*batch t m k"] | None = None
    transitions: Bool[Tensor, "k k"] | None = None

    @classmethod
    def fixing(cls, known: Int[Tensor, "*batch n 3"], t: int, m: int, k: int) -> SegmentConstraint:
        """Partial annotation: the triples (begin, end, label) must be segments; a label of -1 leaves the label open.

        Rows of -1 say nothing, so that a batch may know different numbers of segments.
        """
        begin = torch.arange(t, device=known.device)[:, None, None]
        end = begin + torch.arange(1, m + 1, device=known.device)[:, None]
        label = torch.arange(k, device=known.device)
        given = known[..., :, None, None, None, :]
        same = (begin == given[..., 0]) & (end == given[..., 1]) & ((label == given[..., 2]) | (given[..., 2] < 0))
        apart = (end <= given[..., 0]) | (begin >= given[..., 1])
        return cls(segments=(same | apart | (given[..., 0] < 0)).all(-4))

    def __and__(self, other: SegmentConstraint) -> SegmentConstraint:
        """What both allow."""
        return SegmentConstraint(
            intersect_masks(self.segments, other.segments), intersect_masks(self.transitions, other.transitions)
        )

    def applied(
        self, segments: Float[Tensor, "*batch t m k"], transitions: Float[Tensor, "*#batch k k"] | None
    ) -> dict[str, Tensor]:
        """The scores that this constraint changes, with -inf where it forbids."""
        changed = {}
        if self.segments is not None:
            changed["segments"] = mask_scores("segments", segments, self.segments)
        if self.transitions is not None:
            k = segments.shape[-1]
            table = segments.new_zeros(k, k) if transitions is None else transitions
            changed["transitions"] = mask_scores("transitions", table, self.transitions)
        return changed
