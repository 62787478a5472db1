"""Binary trees over words, for hierarchical softmax. Uses only NumPy.

A tree over ``m`` leaves is an array of ``m - 1`` rows: ``children[i]`` are the left and right child of the inner node
``i``. A child that is an inner node is its index, which is larger than its parent's; leaf ``j`` is ``-1 - j``. Node 0
is the root.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class CodePaths:
    """The paths from the root to all leaves.

    The path of leaf ``j`` is ``nodes[starts[j]:starts[j + 1]]``, and ``left`` is True where it turns left.
    """

    starts: np.ndarray
    nodes: np.ndarray
    left: np.ndarray

    @property
    def depths(self) -> np.ndarray:
        return np.diff(self.starts)


def huffman_tree(counts: Sequence[int]) -> np.ndarray:
    """The tree of minimum expected depth (Huffman 1952), by two queues, in time O(m log m). Counts are at least 1."""
    m = len(counts)
    weights = np.maximum(np.asarray(counts, dtype=np.int64), 1)
    leaves = deque((int(weights[j]), -1 - int(j)) for j in np.argsort(weights, kind="stable"))
    merged: deque[tuple[int, int]] = deque()
    children = np.zeros((max(m - 1, 0), 2), dtype=np.int64)
    for number in range(m - 2, -1, -1):  # the last merge is the root, number 0
        pair = [
            leaves.popleft() if leaves and (not merged or leaves[0][0] <= merged[0][0]) else merged.popleft()
            for _ in range(2)
        ]
        children[number] = pair[0][1], pair[1][1]
        merged.append((pair[0][0] + pair[1][0], number))
    return children


def balanced_tree(m: int) -> np.ndarray:
    """A tree whose depths differ by at most one; neighboring leaves are near each other."""
    children = np.arange(2 * (m - 1), dtype=np.int64).reshape(-1, 2) + 1
    return np.where(children < m - 1, children, -1 - (children - (m - 1)))


_LEAST_SHARE = 0.1
"""The minimum fraction of the smaller side of a split, so that no tree becomes a list."""


def clustered_tree(vectors: np.ndarray, rounds: int = 5) -> np.ndarray:
    """A tree from recursive splits of the vectors in two, so that similar words have most of their path in common.

    Each split is by 2-means, the hard form of the mixture of two Gaussians in Mnih & Hinton 2008, section 4 (their
    ADAPTIVE trees). All splits of one depth are computed together: time O(m d) for each depth.
    """
    x = np.ascontiguousarray(vectors, dtype=np.float64)
    m = len(x)
    children = np.zeros((max(m - 1, 0), 2), dtype=np.int64)
    leaves, starts, numbers = np.arange(m), np.array([0]), np.array([0])
    made = 1
    while m > 1 and len(starts):
        leaves, cuts = _split_groups(x, leaves, starts, rounds)
        ends = np.append(starts[1:], len(leaves))
        edges = np.stack((starts, cuts, ends), axis=1)
        sizes = np.diff(edges, axis=1)
        inner = sizes > 1
        ids = np.cumsum(inner.ravel()).reshape(inner.shape) - 1 + made
        children[numbers] = np.where(inner, ids, -1 - leaves[edges[:, :2]])
        made += int(inner.sum())
        numbers = ids[inner]
        kept = np.repeat(inner.ravel(), sizes.ravel())
        leaves = leaves[kept]
        starts = np.concatenate(([0], np.cumsum(sizes[inner])))[:-1]
    return children


def _split_groups(x: np.ndarray, leaves: np.ndarray, starts: np.ndarray, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The leaves of each group sorted along its split, and the start of the right side of each."""
    sizes = np.diff(np.append(starts, len(leaves)))
    group = np.repeat(np.arange(len(starts)), sizes)
    mine = x[leaves]
    mine = mine - (np.add.reduceat(mine, starts) / sizes[:, None])[group]
    key = _widest(mine, group, starts)
    for _ in range(rounds):
        left = key <= 0
        n_left = np.maximum(np.add.reduceat(left.astype(np.float64), starts), 1)[:, None]
        n_right = np.maximum(np.add.reduceat((~left).astype(np.float64), starts), 1)[:, None]
        low = np.add.reduceat(mine * left[:, None], starts) / n_left
        high = np.add.reduceat(mine * ~left[:, None], starts) / n_right
        axis, middle = high - low, (high + low) / 2
        key = np.einsum("ij,ij->i", mine - middle[group], axis[group])
    order = np.lexsort((key, group))
    n_left = np.add.reduceat((key <= 0).astype(np.int64), starts)
    flat = np.maximum.reduceat(key, starts) == np.minimum.reduceat(key, starts)
    least = np.maximum(1, (sizes * _LEAST_SHARE).astype(np.int64))
    n_left = np.where(flat, sizes // 2, np.clip(n_left, least, sizes - least))
    return leaves[order], starts + n_left


def _widest(x: np.ndarray, group: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The projection of each centered vector on its group's direction of largest variance, by a few power steps."""
    first = np.abs(x).argmax(axis=1)
    far = np.abs(x[np.arange(len(x)), first])
    # Start at a vector of each group that is far from the center.
    order = np.lexsort((far, group))
    axis = x[order[np.append(starts[1:], len(x)) - 1]]
    for _ in range(5):
        axis = axis / np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-300)
        axis = np.add.reduceat(x * np.einsum("ij,ij->i", x, axis[group])[:, None], starts)
    return np.einsum("ij,ij->i", x, axis[group])


def tree_paths(children: np.ndarray) -> CodePaths:
    """The paths to all leaves."""
    inner = len(children)
    parent, side = np.full(inner, -1), np.zeros(inner, dtype=bool)
    leaf_parent, leaf_side = np.full(inner + 1, -1), np.zeros(inner + 1, dtype=bool)
    for column in range(2):
        child = children[:, column]
        is_leaf = child < 0
        nodes = np.flatnonzero(~is_leaf)
        parent[child[nodes]], side[child[nodes]] = nodes, column == 0
        nodes = np.flatnonzero(is_leaf)
        leaf_parent[-1 - child[nodes]], leaf_side[-1 - child[nodes]] = nodes, column == 0
    climbed, turns, node, turn = [], [], leaf_parent, leaf_side
    while (node >= 0).any():
        climbed.append(node)
        turns.append(turn)
        turn = np.where(node >= 0, side[node], False)
        node = np.where(node >= 0, parent[node], -1)
    if not climbed:
        return CodePaths(np.zeros(inner + 2, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    up, left = np.stack(climbed[::-1], axis=1), np.stack(turns[::-1], axis=1)
    real = up >= 0
    starts = np.concatenate(([0], np.cumsum(real.sum(axis=1))))
    return CodePaths(starts, up[real], left[real])


def expected_depth(paths: CodePaths, counts: Sequence[int] | np.ndarray) -> float:
    """The mean number of decisions for a word, weighted by counts."""
    weights = np.asarray(counts, dtype=np.float64)
    return float(weights @ paths.depths / max(weights.sum(), 1.0))
