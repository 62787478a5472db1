"""Tidy trees: every node above the middle of its children, no two subtrees overlapping, equal subtrees drawn alike.

The rules of Reingold & Tilford (1981) for nodes of any width and any number of children. Siblings are packed once from
the left and once from the right, and stand half way between: both keep all distances, so the mean does as well, and a
mirrored tree gets the mirrored drawing. A subtree's outline is kept as offsets from its root, level by level; the
outline of a node is merged into the deepest of its children, so each level of each subtree is looked at once: time
O(n) but for nodes with many children of very different depth.

Knows nothing of labels: widths in, positions out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outline:
    """How far a subtree reaches to the left and right of its root, at each level below it."""

    left: list[float]
    right: list[float]


def tidy(widths: Sequence[float], children: Sequence[Sequence[int]], gap: float) -> list[float]:
    """The x of each node's middle. Node 0 is the root; every node comes before its children.

    Args:
        widths: ``widths[i]`` is how much room node ``i`` needs.
        children: ``children[i]`` lists the children of node ``i`` from left to right, each above ``i``.
        gap: the least distance between neighbours on a level.
    """
    outlines: list[Outline | None] = [None] * len(widths)
    offsets = [0.0] * len(widths)
    for node in reversed(range(len(widths))):
        below = [outlines[child] for child in children[node]]
        found = [outline for outline in below if outline is not None]
        places = _packed(found, gap)
        for child, place in zip(children[node], places, strict=True):
            offsets[child] = place
            outlines[child] = None
        half = widths[node] / 2
        outlines[node] = Outline([-half, *_reach(found, places, "left")], [half, *_reach(found, places, "right")])
    xs = [0.0] * len(widths)
    for node, below_it in enumerate(children):
        for child in below_it:
            xs[child] = xs[node] + offsets[child]
    return xs


def _packed(outlines: Sequence[Outline], gap: float) -> list[float]:
    """Where the roots of neighbouring subtrees stand, relative to the middle of the first and the last."""
    if not outlines:
        return []
    mirrored = [Outline([-x for x in o.right], [-x for x in o.left]) for o in reversed(outlines)]
    from_left = _packed_left(outlines, gap)
    from_right = [from_left[-1] - x for x in reversed(_packed_left(mirrored, gap))]
    return [(a + b) / 2 - from_left[-1] / 2 for a, b in zip(from_left, from_right, strict=True)]


def _packed_left(outlines: Sequence[Outline], gap: float) -> list[float]:
    edge: list[float] = []
    places: list[float] = []
    for outline in outlines:
        shared = zip(edge, outline.left, strict=False)
        place = max((right + gap - left for right, left in shared), default=0.0)
        places.append(place)
        reach = [place + x for x in outline.right]
        edge = reach + edge[len(reach) :]
    return places


def _reach(outlines: Sequence[Outline], places: Sequence[float], side: str) -> list[float]:
    """The outline of several subtrees together: at each level that of the outermost one that reaches it."""
    merged: list[float] = []
    pairs = list(zip(outlines, places, strict=True))
    for outline, place in pairs if side == "left" else reversed(pairs):
        own = outline.left if side == "left" else outline.right
        merged += [place + x for x in own[len(merged) :]]
    return merged
