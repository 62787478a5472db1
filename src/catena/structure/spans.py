"""Binary trees as lists of spans: ordering, conversion to charts, and validation.

A tree over ``n`` words has ``2 n - 1`` rows ``(first, last, label)``, both words included, in *preorder*: a span before
its children, the left child before the right. It is padded to ``2 t - 1`` rows with -1. The left child of row ``r`` is
row ``r + 1``. The right child comes after all ``2 w - 1`` rows of the left child, whose width is ``w``.

Tested in tests/structure/test_pcfg.py and tests/structure/test_tree.py.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor


class SpanNodes(NamedTuple):
    """The spans of trees in preorder, as one tensor for each property."""

    first: Int[Tensor, "*batch n"]
    last: Int[Tensor, "*batch n"]
    label: Int[Tensor, "*batch n"]
    real: Bool[Tensor, "*batch n"]
    left: Int[Tensor, "*batch n"]
    """The row of the left child; arbitrary if there is none."""
    right: Int[Tensor, "*batch n"]

    @property
    def inner(self) -> Bool[Tensor, "*batch n"]:
        """True for spans of two words or more."""
        return self.real & (self.first < self.last)

    def at(self, rows: Int[Tensor, "*batch n"]) -> tuple[Tensor, Tensor, Tensor]:
        """First, last and label of the given rows."""
        return self.first.gather(-1, rows), self.last.gather(-1, rows), self.label.gather(-1, rows)

    def are_trees(self, lengths: Int[Tensor, "*#batch"]) -> Bool[Tensor, "*batch"]:
        """Whether the spans form one binary tree over all words. The tree over no words has no spans."""
        rows = torch.arange(self.first.shape[-1], device=self.first.device)
        due = rows < 2 * lengths[..., None] - 1
        root = (rows > 0) | ((self.first == 0) & (self.last == lengths[..., None] - 1))
        left_first, left_last, _ = self.at(self.left)
        right_first, right_last, _ = self.at(self.right)
        whole = (left_first == self.first) & (right_first == left_last + 1) & (right_last == self.last)
        return ((self.real == due) & (~due | (root & (~self.inner | whole)))).all(-1)


def in_preorder(y: Int[Tensor, "*batch n c"], t: int) -> Int[Tensor, "*batch n c"]:
    """The spans of trees over at most ``t`` words in preorder, from any order."""
    first, last = y[..., 0], y[..., 1]
    order = torch.where(first < 0, t * t, first * t + (t - 1 - last)).argsort(dim=-1, stable=True)
    return y.gather(-2, order[..., None].expand(y.shape))


def to_nodes(y: Int[Tensor, "*batch n c"], t: int) -> SpanNodes:
    """The nodes of trees whose spans are in any order."""
    first, last, label = in_preorder(y, t).unbind(-1)[:3]
    n = first.shape[-1]
    rows = torch.arange(n, device=y.device)
    left = (rows + 1).clamp_max(n - 1).expand(first.shape)
    width = last.gather(-1, left) - first.gather(-1, left) + 1
    return SpanNodes(first, last, label, first >= 0, left, (rows + 2 * width).clamp(0, n - 1))


def tree_of_chart(chart: Shaped[Tensor, "*batch t t k"]) -> Int[Tensor, "*batch n 3"]:
    """The spans of trees in preorder, from 0/1 charts with a 1 at ``[first, last, label]`` of each span."""
    t = chart.shape[-2]
    best, label = chart.max(dim=-1)
    present = (best > 0.5).flip(-1).flatten(-2)  # last words in descending order, so that reading order is preorder
    order = (~present).to(torch.int8).argsort(dim=-1, stable=True)[..., : 2 * t - 1]
    first, last = order // t, t - 1 - order % t
    label = label.flatten(-2).gather(-1, first * t + last)
    return torch.where(present.gather(-1, order)[..., None], torch.stack((first, last, label), dim=-1), -1)


def chart_of_tree(y: Int[Tensor, "*batch n c"], t: int, k: int) -> Bool[Tensor, "*batch t t k"]:
    """The inverse of :func:`tree_of_chart`. Only the first three columns of a row are read."""
    first, last, label = y.unbind(-1)[:3]
    real = (first >= 0) & (first <= last) & (last < t) & (label >= 0) & (label < k)
    place = torch.where(real, (first * t + last) * k + label, t * t * k)
    chart = torch.zeros(*y.shape[:-2], t * t * k + 1, dtype=torch.bool, device=y.device)
    return chart.scatter(-1, place, True)[..., :-1].unflatten(-1, (t, t, k))


def at_span(table: Shaped[Tensor, "*#batch t t k"], nodes: SpanNodes, label: Tensor) -> Shaped[Tensor, "*batch n"]:
    """``table[..., first, last, label]`` for each span, or an arbitrary entry at padding."""
    t, k = table.shape[-2:]
    place = (nodes.first.clamp(0, t - 1) * t + nodes.last.clamp(0, t - 1)) * k + label.clamp(0, k - 1)
    return gather_spans(table.flatten(-3), place)


def gather_spans(table: Shaped[Tensor, "*#batch c"], index: Int[Tensor, "*batch n"]) -> Shaped[Tensor, "*batch n"]:
    """``table[..., index]`` with broadcast batch axes."""
    return table.expand(*index.shape[:-1], table.shape[-1]).gather(-1, index)


def spans_inside(lengths: Int[Tensor, "*batch"], t: int) -> Bool[Tensor, "*batch t t 1"]:
    """``[..., i, j, 0]`` is True if the words ``i`` to ``j`` are a span of the sentence."""
    places = torch.arange(t, device=lengths.device)
    return ((places[:, None] <= places) & (places < lengths[..., None, None]))[..., None]


def spans_of_width(table: Shaped[Tensor, "... t t k"], width: int) -> Shaped[Tensor, "... n k"]:
    """``[..., i, :]`` is the entry of the table for the span of this width that begins at ``i``."""
    return table.diagonal(width - 1, dim1=-3, dim2=-2).movedim(-1, -2)
