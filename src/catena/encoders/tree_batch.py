"""Trees as the input of a network: the shapes of many trees, and a batch of them cut into levels.

The level of a node is its height: leaves are on level 0, every other node one above the highest of its children. What a
level needs was computed on lower ones, so one step computes all nodes of a level, of all trees of a batch.

The nodes of a batch stand in the order of their levels and, within a level, in the order of the levels that read them,
those of their parents. So a level hands to each later one a slice of what it computed; every vector is moved twice on
its way to its parent, however deep the trees are.

Knows nothing of words and labels: numbers of nodes in, numbers of nodes out. Built by numpy in O(n log n) for n nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from catena.errors import DataError


@dataclass(frozen=True)
class TreeLevel:
    """The nodes of one height, numbered from 0, and where their children and inputs are found.

    Args:
        size: how many nodes there are.
        readers: the later levels that read some of them.
        splits: how many each of these reads, and last how many roots there are, which nobody reads.
        children: the children of these nodes, from left to right under each node in turn, by their places among all
            that the lower levels hand to this one.
        parents: the node that each child belongs to.
        slots: the place of each child among those of its node; 0 is the leftmost.
        inputs: from where to where the nodes' inputs stand among those of the batch.
        takers: the nodes that have an input; None where all have one.
        arity: how many children each of the nodes has, if all have as many.
    """

    size: int
    readers: tuple[int, ...]
    splits: tuple[int, ...]
    children: Int[Tensor, "c"]
    parents: Int[Tensor, "c"]
    slots: Int[Tensor, "c"]
    inputs: tuple[int, int]
    takers: Int[Tensor, "m"] | None
    arity: int | None


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Trees that are computed together.

    Args:
        levels: the nodes by their height, leaves first.
        roots: the place of each tree's root in the order of the batch, the trees in the order they were asked for.
        nodes: which node of the forest stands at each place.
        inputs: which nodes of the forest have an input, in the order in which an encoder takes them.
        children: the places of all children in the order of the batch, from left to right under each node in turn.
        few, many: the fewest and the most children of a node that has any; 0 where none has.
        inner_inputs: whether some nodes have an input and children.
    """

    levels: tuple[TreeLevel, ...]
    roots: Int[Tensor, "b"]
    nodes: Int[np.ndarray, "n"]
    inputs: Int[np.ndarray, "m"]
    children: Int[Tensor, "c"]
    few: int
    many: int
    inner_inputs: bool

    @property
    def n(self) -> int:
        """Nodes of all trees."""
        return len(self.nodes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level."""
        return tuple(level.size for level in self.levels)


@dataclass(frozen=True, eq=False)
class TreeBatchBuilder:
    """The shapes of many trees. Node ``i`` of tree ``j`` is node ``offsets[j] + i`` of the forest.

    Args:
        parents: the number of each node's parent in the forest; -1 for a root. Children stand under their parent in the
            order of their numbers, the smallest leftmost.
        heights: the height of each node.
        has_input: whether a node takes an input vector, as a leaf takes that of its word.
        offsets: where each tree begins, and where the last one ends.
    """

    parents: Int[np.ndarray, "n"]
    heights: Int[np.ndarray, "n"]
    has_input: Bool[np.ndarray, "n"]
    offsets: Int[np.ndarray, "_"]

    @classmethod
    def of(cls, trees: Sequence[Sequence[int]], has_input: Sequence[Sequence[bool]] | None = None) -> TreeBatchBuilder:
        """A forest of trees, each given by the parent of every node, -1 for its root.

        Inputs are taken by the leaves unless ``has_input`` says by which nodes.
        """
        sizes = np.fromiter(map(len, trees), np.int64, len(trees))
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        parents = np.fromiter((parent for tree in trees for parent in tree), np.int64, int(offsets[-1]))
        _check_parents(parents, offsets)
        parents = np.where(parents < 0, -1, parents + np.repeat(offsets[:-1], sizes))
        heights = node_heights(parents)
        if (heights < 0).any():
            tree = int(np.searchsorted(offsets, np.flatnonzero(heights < 0)[0], side="right")) - 1
            raise DataError(f"tree {tree} has a node that is its own ancestor: the parents of a tree have no cycle")
        flags = heights == 0
        if has_input is not None:
            flags = np.fromiter((bool(flag) for tree in has_input for flag in tree), bool, len(parents))
        return cls(parents, heights, flags, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, "_"]:
        """How many nodes each tree has."""
        return np.diff(self.offsets)

    def nodes_of(self, rows: Int[np.ndarray, "b"]) -> Int[np.ndarray, "n"]:
        """The nodes of some trees, tree after tree."""
        starts, sizes = self.offsets[rows], self.sizes[rows]
        before = np.cumsum(sizes) - sizes
        return np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)

    def batch(self, rows: Int[np.ndarray, "b"], device: torch.device | None = None) -> TreeBatch:
        """Some of the trees, as an encoder takes them."""
        rows = np.asarray(rows, np.int64)
        taken = self.nodes_of(rows)
        sizes = self.sizes[rows]
        shift = np.repeat(self.offsets[rows] - (np.cumsum(sizes) - sizes), sizes)
        parents = np.where(self.parents[taken] < 0, -1, self.parents[taken] - shift)
        return _Builder(parents, self.heights[taken], self.has_input[taken]).build(taken, device)


class _Builder:
    """Sorts the nodes of a batch. ``parents`` are numbers in the batch, before it is sorted."""

    def __init__(self, parents: np.ndarray, heights: np.ndarray, has_input: np.ndarray) -> None:
        self.n = len(parents)
        self.depth = int(heights.max(initial=-1)) + 1
        readers = np.where(parents < 0, self.depth, heights[np.maximum(parents, 0)])
        self.order = np.argsort(heights * (self.depth + 1) + readers, kind="stable")
        self.place = np.empty(self.n, np.int64)
        self.place[self.order] = np.arange(self.n)
        self.heights, self.readers = heights[self.order], readers[self.order]
        self.parents, self.takes = parents, has_input[self.order]
        self.starts = np.searchsorted(self.heights, np.arange(self.depth + 1))

    def build(self, taken: np.ndarray, device: torch.device | None) -> TreeBatch:
        children, parents, slots, places, bounds = self._children()
        takers = np.flatnonzero(self.takes)
        input_bounds = np.searchsorted(takers, self.starts)
        roots = self.place[np.flatnonzero(self.parents < 0)]
        local = takers - self.starts[self.heights[takers]]
        flat = torch.from_numpy(np.concatenate((children, parents, slots, places, local, roots))).to(device)
        c, m = len(children), len(local)
        on_device = flat.split([c, c, c, c, m, len(roots)])
        passed = self._passed()
        counts = np.bincount(self.place[self.parents[self.parents >= 0]], minlength=self.n)
        inner = counts[self.starts[1] :] if self.depth > 1 else counts[:0]
        levels = []
        for level in range(self.depth):
            first, last = int(self.starts[level]), int(self.starts[level + 1])
            a, b = int(bounds[level]), int(bounds[level + 1])
            i, j = int(input_bounds[level]), int(input_bounds[level + 1])
            own = counts[first:last]
            levels.append(
                TreeLevel(
                    last - first,
                    *passed[level],
                    on_device[0][a:b],
                    on_device[1][a:b],
                    on_device[2][a:b],
                    (i, j),
                    None if j - i == last - first else on_device[4][i:j],
                    int(own[0]) if (own == own[0]).all() else None,
                )
            )
        few, many = (int(inner.min()), int(inner.max())) if len(inner) else (0, 0)
        above = bool(self.takes[self.starts[1] :].any()) if self.depth > 1 else False
        nodes = taken[self.order]
        return TreeBatch(tuple(levels), on_device[5], nodes, nodes[takers], on_device[3], few, many, above)

    def _children(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """For each child, under its parent from left to right: where it comes in, its parent, its slot and its place;
        and where the children of each level begin."""
        child = np.flatnonzero(self.parents >= 0)
        above, own = self.place[self.parents[child]], self.place[child]
        level = self.heights[above]
        bounds = np.searchsorted(np.sort(level), np.arange(self.depth + 1))
        # What a level is handed comes in the order of the places, for lower levels stand first.
        arrival = np.empty(len(child), np.int64)
        coming = np.lexsort((own, level))
        arrival[coming] = np.arange(len(child)) - bounds[level[coming]]
        under = np.argsort(above, kind="stable")
        parents = above[under]
        first = np.searchsorted(parents, parents, side="left")
        slots = np.arange(len(child)) - first
        return arrival[under], parents - self.starts[self.heights[parents]], slots, own[under], bounds

    def _passed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Of each level, the levels that read it and how many nodes each reads; last the roots, read by none."""
        width = self.depth + 1
        pairs, counts = np.unique(self.heights * width + self.readers, return_counts=True)
        found: list[tuple[list[int], list[int]]] = [([], []) for _ in range(self.depth)]
        roots = [0] * self.depth
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            level, reader = divmod(pair, width)
            if reader == self.depth:
                roots[level] = count
            else:
                found[level][0].append(reader)
                found[level][1].append(count)
        return [(tuple(a), (*b, last)) for (a, b), last in zip(found, roots, strict=True)]


def node_heights(parents: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The height of each node: 0 for a leaf, otherwise one more than the highest of its children.

    ``parents`` may be those of many trees; -1 for a root. A node of a cycle, or above one, gets -1.
    """
    heights = np.full(len(parents), -1, np.int64)
    waiting = np.bincount(parents[parents >= 0], minlength=len(parents))
    ready, height = np.flatnonzero(waiting == 0), 0
    while len(ready):
        heights[ready] = height
        above, served = np.unique(parents[ready], return_counts=True)
        above, served = above[above >= 0], served[above >= 0]
        waiting[above] -= served
        ready, height = above[waiting[above] == 0], height + 1
    return heights


def _check_parents(parents: np.ndarray, offsets: np.ndarray) -> None:
    """Refuse trees that are none: without nodes, with no root or several, or with a parent that is not there."""
    sizes = np.diff(offsets)
    if (sizes == 0).any():
        raise DataError(f"tree {int(np.flatnonzero(sizes == 0)[0])} has no node: a tree has at least its root")
    tree = np.repeat(np.arange(len(sizes)), sizes)
    outside = np.flatnonzero((parents < -1) | (parents >= sizes[tree]))
    if len(outside):
        i = outside[0]
        raise DataError(
            f"tree {tree[i]} has {sizes[tree[i]]} nodes, and node {i - offsets[tree[i]]} has the parent {parents[i]}: "
            f"a parent is -1 for the root, or the number of a node"
        )
    roots = np.bincount(tree[parents == -1], minlength=len(sizes))
    wrong = np.flatnonzero(roots != 1)
    if len(wrong):
        raise DataError(f"tree {wrong[0]} has {roots[wrong[0]]} roots: exactly one node has the parent -1")
