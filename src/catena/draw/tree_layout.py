"""Tree layout: parents centered above their children, no overlapping subtrees, equal subtrees with equal shapes.

The rules of Reingold & Tilford (1981) for nodes of any width and any number of children. Siblings are packed once from
the left and once from the right, and get the mean of both positions: both keep all distances, so the mean does too,
and a mirrored tree gets the mirrored drawing.

The outline of a subtree is stored from its lowest level up, and the outlines of siblings are merged into the deepest,
so only the levels of the shallower ones are visited: time O(n).

The module only sees widths and returns positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Outline:
    """The extent of a subtree to the left and right of its root, from the lowest level up, without ``shift``."""

    left: list[float]
    right: list[float]
    shift: float = 0.0

    @property
    def depth(self) -> int:
        return len(self.left)

    def edge(self, side: int, level: int) -> float:
        """Return the extent on a side (-1 left, 1 right) at a level below the root, positive towards that side."""
        return (self.right[-1 - level] + self.shift) if side > 0 else -(self.left[-1 - level] + self.shift)


def tree_layout(widths: Sequence[float], children: Sequence[Sequence[int]], gap: float) -> list[float]:
    """Return the center x of each node. Node 0 is the root, at 0.

    Args:
        widths: ``widths[i]`` is the width of node ``i``.
        children: ``children[i]`` lists the children of node ``i`` from left to right, all with an index above ``i``.
        gap: the least distance between neighbors on a level.
    """
    outlines: dict[int, Outline] = {}
    offsets = [0.0] * len(widths)
    for node in reversed(range(len(widths))):
        below = [outlines.pop(child) for child in children[node]]
        positions = _packed(below, gap)
        for child, position in zip(children[node], positions, strict=True):
            offsets[child] = position
        outline = _merged(below, positions)
        outline.left.append(-widths[node] / 2 - outline.shift)
        outline.right.append(widths[node] / 2 - outline.shift)
        outlines[node] = outline
    xs = [0.0] * len(widths)
    for node, below_it in enumerate(children):
        for child in below_it:
            xs[child] = xs[node] + offsets[child]
    return xs


def _packed(outlines: Sequence[Outline], gap: float) -> list[float]:
    """Return the positions of sibling roots, relative to the midpoint of the first and the last."""
    if not outlines:
        return []
    from_left = _packed_towards(1, outlines, gap)
    from_right = _packed_towards(-1, outlines[::-1], gap)
    span = from_left[-1]
    return [(a + span - b) / 2 - span / 2 for a, b in zip(from_left, reversed(from_right), strict=True)]


def _packed_towards(side: int, outlines: Sequence[Outline], gap: float) -> list[float]:
    """Return the least distances of the subtrees from the first, each one further to the side."""
    edge: list[float] = []
    positions: list[float] = []
    for outline, later in zip(outlines, _later([outline.depth for outline in outlines]), strict=True):
        shared = range(min(len(edge), outline.depth))
        position = max((edge[level] + gap + outline.edge(-side, level) for level in shared), default=0.0)
        positions.append(position)
        edge[: outline.depth] = [position + outline.edge(side, level) for level in range(outline.depth)[:later]]
        del edge[later:]
    return positions


def _later(depths: Sequence[int]) -> list[int]:
    """Return, for each index, the largest depth after it."""
    found, most = [], 0
    for depth in reversed(depths):
        found.append(most)
        most = max(most, depth)
    return found[::-1]


def _merged(outlines: Sequence[Outline], positions: Sequence[float]) -> Outline:
    """Return the joint outline of several subtrees: at each level that of the outermost subtree that reaches it."""
    if not outlines:
        return Outline([], [])
    deepest = max(range(len(outlines)), key=lambda i: outlines[i].depth)
    base = outlines[deepest]
    base.shift += positions[deepest]
    for i in range(deepest - 1, -1, -1):
        for level in range(outlines[i].depth):
            base.left[-1 - level] = positions[i] - outlines[i].edge(-1, level) - base.shift
    for i in range(deepest + 1, len(outlines)):
        for level in range(outlines[i].depth):
            base.right[-1 - level] = positions[i] + outlines[i].edge(1, level) - base.shift
    return base
