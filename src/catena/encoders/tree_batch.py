"""Trees as the input of a network: the shapes of many trees, and a batch of them divided into levels.

The level of a node is its height: leaves are on level 0, every other node one above the highest of its children. The
children of a level are on lower levels, so one step computes all nodes of a level, for all trees of a batch.

The nodes of a batch are sorted by level and, within a level, by the level of their parents. So a level passes a slice
of its vectors to each later level; every vector is moved twice on its way to its parent, for any depth.

Knows nothing of words and labels: node indices in, node indices out. Built by NumPy in O(n log n) for n nodes.
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
    """The nodes of one height, numbered from 0, with the indices of their children and inputs.

    Args:
        size: the number of nodes.
        readers: the later levels that read some of them.
        splits: the number of nodes that each of these reads, and last the number of roots, which none reads.
        children: the children of these nodes, from left to right, node by node, as indices into all vectors
            that the lower levels pass to this one.
        parents: the node that each child belongs to.
        slots: the index of each child among the children of its node; 0 is the leftmost.
        inputs: the range of the nodes' inputs among the inputs of the batch.
        takers: the nodes that have an input; None if all have one.
        arity: the number of children of each node, if it is the same for all.
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
        roots: the index of each tree's root in the order of the batch, in the requested order of trees.
        nodes: the forest node at each index.
        inputs: the forest nodes with an input, in the order in which an encoder takes them.
        children: the indices of all children in the order of the batch, from left to right, node by node.
        few, many: the minimum and maximum number of children of inner nodes; 0 if there are none.
        inner_inputs: whether some inner nodes have an input.
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
        """The number of nodes of all trees."""
        return len(self.nodes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes of each level."""
        return tuple(level.size for level in self.levels)


@dataclass(frozen=True, eq=False)
class TreeBatchBuilder:
    """The shapes of many trees. Node ``i`` of tree ``j`` is node ``offsets[j] + i`` of the forest.

    Args:
        parents: the index of each node's parent in the forest; -1 for a root. Children are ordered by their index, the
            smallest leftmost.
        heights: the height of each node.
        has_input: whether a node has an input vector, such as the word vector of a leaf.
        offsets: the start of each tree, and the end of the last one.
    """

    parents: Int[np.ndarray, "n"]
    heights: Int[np.ndarray, "n"]
    has_input: Bool[np.ndarray, "n"]
    offsets: Int[np.ndarray, "_"]

    @classmethod
    def of(cls, trees: Sequence[Sequence[int]], has_input: Sequence[Sequence[bool]] | None = None) -> TreeBatchBuilder:
        """A forest of trees, each given by the parent of every node, -1 for its root.

        The leaves have inputs, unless ``has_input`` gives the nodes with inputs.
        """
        sizes = np.fromiter(map(len, trees), np.int64, len(trees))
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        parents = np.fromiter((parent for tree in trees for parent in tree), np.int64, int(offsets[-1]))
        _check_parents(parents, offsets)
        parents = np.where(parents < 0, -1, parents + np.repeat(offsets[:-1], sizes))
        heights = node_heights(parents)
        if (heights < 0).any():
            tree = int(np.searchsorted(offsets, np.flatnonzero(heights < 0)[0], side="right")) - 1
            raise DataError(f"Tree {tree} has a node that is its own ancestor. Remove the cycle from its parents.")
        flags = heights == 0
        if has_input is not None:
            flags = np.fromiter((bool(flag) for tree in has_input for flag in tree), bool, len(parents))
        return cls(parents, heights, flags, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Int[np.ndarray, "_"]:
        """The number of nodes of each tree."""
        return np.diff(self.offsets)

    def nodes_of(self, rows: Int[np.ndarray, "b"]) -> Int[np.ndarray, "n"]:
        """The nodes of some trees, concatenated."""
        starts, sizes = self.offsets[rows], self.sizes[rows]
        before = np.cumsum(sizes) - sizes
        return np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)

    def batch(self, rows: Int[np.ndarray, "b"], device: torch.device | None = None) -> TreeBatch:
        """A batch of some of the trees, as the input of an encoder."""
        rows = np.asarray(rows, np.int64)
        taken = self.nodes_of(rows)
        sizes = self.sizes[rows]
        shift = np.repeat(self.offsets[rows] - (np.cumsum(sizes) - sizes), sizes)
        parents = np.where(self.parents[taken] < 0, -1, self.parents[taken] - shift)
        return _Builder(parents, self.heights[taken], self.has_input[taken]).build(taken, device)


class _Builder:
    """Sorts the nodes of a batch. ``parents`` are indices in the unsorted batch."""

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
        """For each child, sorted by parent and from left to right: its input index, parent, slot and batch index.

        Last, the start of the children of each level.
        """
        child = np.flatnonzero(self.parents >= 0)
        above, own = self.place[self.parents[child]], self.place[child]
        level = self.heights[above]
        bounds = np.searchsorted(np.sort(level), np.arange(self.depth + 1))
        # A level receives vectors in batch order, since lower levels come first.
        arrival = np.empty(len(child), np.int64)
        coming = np.lexsort((own, level))
        arrival[coming] = np.arange(len(child)) - bounds[level[coming]]
        under = np.argsort(above, kind="stable")
        parents = above[under]
        first = np.searchsorted(parents, parents, side="left")
        slots = np.arange(len(child)) - first
        return arrival[under], parents - self.starts[self.heights[parents]], slots, own[under], bounds

    def _passed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """For each level, the levels that read it and the number of nodes each reads; last the roots, read by none."""
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

    ``parents`` may contain many trees; -1 for a root. A node of a cycle, or above one, gets -1.
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
    """Raise DataError for invalid trees: without nodes, with no root or several, or with a parent out of range."""
    sizes = np.diff(offsets)
    if (sizes == 0).any():
        raise DataError(f"Tree {int(np.flatnonzero(sizes == 0)[0])} has no nodes. Give each tree at least a root.")
    tree = np.repeat(np.arange(len(sizes)), sizes)
    outside = np.flatnonzero((parents < -1) | (parents >= sizes[tree]))
    if len(outside):
        i = outside[0]
        raise DataError(
            f"parents of tree {tree[i]} must be -1 or a node from 0 to {sizes[tree[i]] - 1}, got {parents[i]} for node "
            f"{i - offsets[tree[i]]}. Fix the parent."
        )
    roots = np.bincount(tree[parents == -1], minlength=len(sizes))
    wrong = np.flatnonzero(roots != 1)
    if len(wrong):
        raise DataError(f"tree {wrong[0]} must have one root, got {roots[wrong[0]]}. Set one parent to -1.")
