"""Forests and batches of trees: levels, order, and invalid trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.encoders.tree_batch import TreeBatchBuilder, node_heights
from catena.errors import DataError

CHAIN = [1, 2, -1]
STAR = [3, 3, 3, -1]
ONE = [-1]
MIXED = [2, 2, 4, 4, -1]  # ((0 1)2 3)4


@st.composite
def parent_lists(draw: st.DrawFn) -> list[int]:
    """A tree of up to 12 nodes, every parent after its children."""
    n = draw(st.integers(1, 12))
    return [draw(st.integers(i + 1, n - 1)) for i in range(n - 1)] + [-1]


def slow_height(parents: list[int], node: int) -> int:
    below = [slow_height(parents, i) for i, parent in enumerate(parents) if parent == node]
    return 1 + max(below) if below else 0


@given(st.lists(parent_lists(), min_size=1, max_size=4))
def test_tree_batch_levels_have_every_node_once_and_correct_children(trees: list[list[int]]) -> None:
    forest = TreeBatchBuilder.of(trees)
    rows = np.arange(len(trees))[::-1].copy()
    batch = forest.batch(rows)
    assert sorted(batch.nodes.tolist()) == list(range(len(forest.parents)))
    assert batch.nodes[batch.roots.numpy()].tolist() == [int(forest.offsets[row + 1] - 1) for row in rows]
    at = [batch.nodes[i:] for i in np.cumsum([0, *(level.size for level in batch.levels)])]
    handed: list[list[int]] = [[] for _ in batch.levels]
    for number, level in enumerate(batch.levels):
        own = at[number][: level.size].tolist()
        tree = [int(np.searchsorted(forest.offsets, node, side="right")) - 1 for node in own]
        assert [slow_height(trees[t], node - forest.offsets[t]) for t, node in zip(tree, own, strict=True)] == [
            number
        ] * level.size
        coming = handed[number]
        children = [coming[i] for i in level.children.tolist()]
        for parent in range(level.size):
            mine = [c for c, p in zip(children, level.parents.tolist(), strict=True) if p == parent]
            assert mine == np.flatnonzero(forest.parents == own[parent]).tolist(), "from left to right"
            slots = [s for s, p in zip(level.slots.tolist(), level.parents.tolist(), strict=True) if p == parent]
            assert slots == list(range(len(mine)))
        counts = {len([p for p in level.parents.tolist() if p == parent]) for parent in range(level.size)}
        assert level.arity == (counts.pop() if len(counts) == 1 else None)
        assert sum(level.splits) == level.size
        start = 0
        for reader, size in zip(level.readers, level.splits, strict=False):
            handed[reader] += own[start : start + size]
            start += size


def test_tree_batch_inputs_are_at_leaves_by_default() -> None:
    forest = TreeBatchBuilder.of([MIXED, ONE])
    batch = forest.batch(np.array([0, 1]))
    assert sorted(batch.inputs.tolist()) == [0, 1, 3, 5]
    assert not batch.inner_inputs
    everywhere = TreeBatchBuilder.of([MIXED], has_input=[[True, False, True, False, True]]).batch(np.array([0]))
    assert sorted(everywhere.inputs.tolist()) == [0, 2, 4]
    assert everywhere.inner_inputs
    assert everywhere.levels[0].takers is not None
    assert everywhere.levels[1].takers is None


def test_tree_batch_few_and_many_are_of_inner_nodes() -> None:
    for trees, few, many in (([STAR, CHAIN], 1, 3), ([MIXED], 2, 2), ([ONE], 0, 0)):
        batch = TreeBatchBuilder.of(trees).batch(np.arange(len(trees)))
        assert (batch.few, batch.many) == (few, many)


def test_tree_batch_of_no_trees_is_empty() -> None:
    batch = TreeBatchBuilder.of([ONE]).batch(np.zeros(0, np.int64))
    assert batch.n == 0
    assert batch.levels == ()


def test_node_heights_of_a_deep_tree_need_no_recursion() -> None:
    n = 5000
    assert node_heights(np.array([*range(1, n), -1])).tolist() == list(range(n))


@pytest.mark.parametrize(
    ("trees", "sentence"),
    [
        ([ONE, [-1, -1]], "tree 1 must have one root, got 2. Set one parent to -1"),
        ([[1, 0]], "tree 0 must have one root, got 0"),
        ([ONE, [1, 0, -1]], "Tree 1 has a node that is its own ancestor"),
        ([[3, -1]], "parents of tree 0 must be -1 or a node from 0 to 1, got 3 for node 0"),
        ([ONE, []], "Tree 1 has no nodes"),
    ],
)
def test_forest_of_invalid_trees_raises(trees: list[list[int]], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        TreeBatchBuilder.of(trees)
