"""Constraints on the spans and labels of trees: forbidden spans, required brackets, partial bracketings.

A constraint holds masks, **True = allowed**. Combine two by ``&``. A required bracket forbids the spans that cross it.
That is equivalent, because a binary tree without crossing spans contains every span it could contain.

Tested in tests/structure/test_tree.py and tests/structure/test_pcfg.py.
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
    """Constraint on the labeled spans of a tree.

    Args:
        labels: ``labels[..., i, j, q]`` is True if the words ``i`` to ``j`` may be a span with label ``q``. If the last
            axis has size 1, it applies to all labels.
    """

    labels: Bool[Tensor, "*batch t t k"]

    @classmethod
    def forbidding(cls, spans: Int[Tensor, "*batch n 2"], t: int) -> SpanConstraint:
        """Constraint that no tree has these spans.

        Args:
            spans: rows ``(first, last)``, both words included. Rows of -1 are padding.
            t: number of words.
        """
        first, last = _ends(spans, t)
        i, j = _places(t, spans.device)
        return cls(~((first == i) & (last == j)).any(-3)[..., None])

    @classmethod
    def brackets(cls, spans: Int[Tensor, "*batch n c"], t: int, k: int | None = None) -> SpanConstraint:
        """Constraint that every tree has these spans.

        Args:
            spans: rows ``(first, last)`` or ``(first, last, label)``, both words included. Rows of -1 are padding, and
                a label of -1 allows any label.
            t: number of words.
            k: number of labels, needed for rows with labels.
        """
        first, last = _ends(spans, t)
        i, j = _places(t, spans.device)
        crosses = ((i < first) & (first <= j) & (j < last)) | ((first < i) & (i <= last) & (last < j))
        allowed = ~(crosses & (first >= 0)).any(-3)[..., None]
        if spans.shape[-1] == 2:
            return cls(allowed)
        if k is None:
            raise ShapeError("Brackets with labels need the number of labels. Pass k.")
        label = spans[..., 2][..., None, None]
        known = (first == i) & (last == j) & (label >= 0)
        wrong = known[..., None] & (label[..., None] != torch.arange(k, device=spans.device))
        return cls(allowed & ~wrong.any(-4))

    def __and__(self, other: SpanConstraint) -> SpanConstraint:
        """The constraint that allows what both allow."""
        return SpanConstraint(self.labels & other.labels)

    def applied(self, scores: Float[Tensor, "*batch t t k"]) -> Float[Tensor, "*batch t t k"]:
        """Scores with -inf where a span is forbidden."""
        return mask_scores("labels", scores, self.labels)


def _ends(spans: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """First and last words of the spans, with two axes added to compare with the cells of a chart."""
    if spans.dim() < 2 or spans.shape[-1] not in (2, 3):
        raise ShapeError(
            f"spans must have shape [*batch, n, 2] or [*batch, n, 3], got {list(spans.shape)}. Use rows (first, last) "
            "or (first, last, label)."
        )
    first, last = spans[..., 0], spans[..., 1]
    wrong = ((first > last) | (last >= t)) & (first >= 0)
    if bool(wrong.any()):
        i, j = spans[wrong][0, :2].tolist()
        raise ShapeError(
            f"spans must have 0 <= first <= last < t = {t}, got ({i}, {j}). Include both words, and count from 0."
        )
    return first[..., None, None], last[..., None, None]


def _places(t: int, device: torch.device) -> tuple[Tensor, Tensor]:
    words = torch.arange(t, device=device)
    return words[:, None], words[None, :]
