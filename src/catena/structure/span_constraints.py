"""Which spans and labels a tree may have: forbidden spans, fixed brackets, partial bracketings.

A constraint holds masks, **True = allowed**; two of them are joined by ``&``. A bracket that must be in the
tree forbids the spans that cross it: of a binary tree, which can take no further span, that is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ShapeError
from catena.structure.constraints import mask_scores


@dataclass(frozen=True, eq=False)
class SpanConstraint:
    """Which labeled spans are allowed in a tree.

    Args:
        labels: ``labels[..., i, j, q]`` is True where the words ``i`` to ``j`` may be a span with label
            ``q``. The last axis may have size 1: then it is the same for all labels.
    """

    labels: Bool[Tensor, "*batch t t k"]

    @classmethod
    def forbidding(cls, spans: Int[Tensor, "*batch n 2"], t: int) -> SpanConstraint:
        """No tree may have these spans ``(first, last)``; rows of -1 forbid nothing."""
        first, last = _ends(spans, t)
        i, j = _places(t, spans.device)
        return cls(~((first == i) & (last == j)).any(-3)[..., None])

    @classmethod
    def brackets(cls, spans: Int[Tensor, "*batch n c"], t: int, k: int | None = None) -> SpanConstraint:
        """Every tree must have these spans ``(first, last)`` or ``(first, last, label)``, however many are
        known.

        Rows of -1 demand nothing, nor does a label of -1. The number of labels ``k`` is needed only where
        labels are given.
        """
        first, last = _ends(spans, t)
        i, j = _places(t, spans.device)
        crosses = ((i < first) & (first <= j) & (j < last)) | ((first < i) & (i <= last) & (last < j))
        allowed = ~(crosses & (first >= 0)).any(-3)[..., None]
        if spans.shape[-1] == 2:
            return cls(allowed)
        if k is None:
            raise ShapeError("brackets with labels need k, the number of labels, to say which of them are meant")
        label = spans[..., 2][..., None, None]
        known = (first == i) & (last == j) & (label >= 0)
        wrong = known[..., None] & (label[..., None] != torch.arange(k, device=spans.device))
        return cls(allowed & ~wrong.any(-4))

    def __and__(self, other: SpanConstraint) -> SpanConstraint:
        """What both allow."""
        return SpanConstraint(self.labels & other.labels)

    def applied(self, scores: Float[Tensor, "*batch t t k"]) -> Float[Tensor, "*batch t t k"]:
        """Scores with -inf where a span may not be."""
        return mask_scores("labels", scores, self.labels)


def _ends(spans: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """First and last words of the spans, with two axes to compare with the places of a chart."""
    if spans.dim() < 2 or spans.shape[-1] not in (2, 3):
        raise ShapeError(
            f"spans must have the axes [*batch, n, 2] or [*batch, n, 3], rows (first, last) or (first, last, label), "
            f"but their shape is {list(spans.shape)}"
        )
    first, last = spans[..., 0], spans[..., 1]
    wrong = ((first > last) | (last >= t)) & (first >= 0)
    if bool(wrong.any()):
        i, j = spans[wrong][0, :2].tolist()
        raise ShapeError(
            f"a span must have 0 <= first <= last < t = {t}, but one is ({i}, {j}); both words are included"
        )
    return first[..., None, None], last[..., None, None]


def _places(t: int, device: torch.device) -> tuple[Tensor, Tensor]:
    words = torch.arange(t, device=device)
    return words[:, None], words[None, :]
