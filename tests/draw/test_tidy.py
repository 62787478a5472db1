"""The rules of tree layout, on trees of any shape."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.draw.tree_layout import tree_layout

Shape = tuple[list[float], list[list[int]], list[int]]


@st.composite
def trees(draw: st.DrawFn) -> Shape:
    """Return widths, children and depths; every node after its parent, children from left to right."""
    parents = [draw(st.integers(max(0, i - 6), i)) for i in range(draw(st.integers(0, 25)))]
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    depths = [0]
    for child, parent in enumerate(parents, 1):
        children[parent].append(child)
        depths.append(depths[parent] + 1)
    widths = [draw(st.sampled_from([1.0, 5.0, 10.0, 80.0])) for _ in children]
    return widths, children, depths


def in_order(children: list[list[int]], depths: list[int]) -> dict[int, list[int]]:
    """Return the nodes of each level, from left to right."""
    rows: dict[int, list[int]] = {}
    waiting = [0]
    while waiting:
        node = waiting.pop()
        rows.setdefault(depths[node], []).append(node)
        waiting.extend(reversed(children[node]))
    return rows


@given(trees(), st.sampled_from([0.0, 4.0, 20.0]))
def test_nothing_overlaps_and_order_is_kept(tree, gap):
    widths, children, depths = tree
    xs = tree_layout(widths, children, gap)
    assert len(xs) == len(widths)
    for row in in_order(children, depths).values():
        for a, b in pairwise(row):
            assert xs[b] - xs[a] >= (widths[a] + widths[b]) / 2 + gap - 1e-9


@given(trees())
def test_node_is_centered_above_its_children(tree):
    widths, children, _ = tree
    xs = tree_layout(widths, children, 5.0)
    assert xs[0] == 0.0
    for node, below in enumerate(children):
        if below:
            assert xs[node] == pytest.approx((xs[below[0]] + xs[below[-1]]) / 2)


@given(trees())
def test_mirrored_tree_gets_mirrored_drawing(tree):
    widths, children, _ = tree
    xs = tree_layout(widths, children, 5.0)
    mirrored = tree_layout(widths, [below[::-1] for below in children], 5.0)
    assert mirrored == pytest.approx([-x for x in xs])


@given(trees(), trees())
def test_equal_subtrees_have_equal_shapes(tree, other):
    """Two copies of a tree with another tree between them have the same shape."""
    widths, children, _ = tree
    n, m = len(widths), len(other[0])
    starts = [1, 1 + n, 1 + n + m]
    joined = [starts]
    for start, (_, below, _) in zip(starts, (tree, other, tree), strict=True):
        joined += [[start + child for child in row] for row in below]
    xs = tree_layout([3.0, *widths, *other[0], *widths], joined, 5.0)
    first, last = xs[1 : 1 + n], xs[1 + n + m :]
    assert [x - first[0] for x in first] == pytest.approx([x - last[0] for x in last])
    assert [x - xs[1] for x in first] == pytest.approx(tree_layout(widths, children, 5.0))


@given(trees())
def test_two_children_are_as_close_as_their_subtrees_allow(tree):
    """If a node has two children, some level of the two subtrees is exactly the gap apart."""
    widths, children, depths = tree
    xs = tree_layout(widths, children, 5.0)
    assert len(children) > 0
    for below in children:
        if len(below) == 2:
            edges = []
            for child, side in zip(below, (1, -1), strict=True):
                reach: dict[int, float] = {}
                waiting = [child]
                while waiting:
                    node = waiting.pop()
                    end = side * xs[node] + widths[node] / 2
                    reach[depths[node]] = max(reach.get(depths[node], end), end)
                    waiting += children[node]
                edges.append(reach)
            shared = edges[0].keys() & edges[1].keys()
            assert min(-edges[1][d] - edges[0][d] for d in shared) == pytest.approx(5.0)


def test_leaves_are_side_by_side():
    assert tree_layout([4.0, 10.0, 20.0, 10.0], [[1, 2, 3], [], [], []], 2.0) == [0.0, -17.0, 0.0, 17.0]


def test_small_subtree_between_large_ones_is_centered():
    # Two wide grandchildren force the outer children apart; the middle one has space on both sides.
    widths = [1.0, 1.0, 1.0, 1.0, 100.0, 100.0]
    xs = tree_layout(widths, [[1, 2, 3], [4], [], [5], [], []], 10.0)
    assert xs[3] - xs[1] == 110.0
    assert xs[2] == (xs[1] + xs[3]) / 2


def test_deep_subtree_may_extend_below_shallow_sibling():
    # The deep left subtree may extend under its shallow sibling: outlines count, not boxes.
    widths = [1.0, 1.0, 10.0, 100.0]
    xs = tree_layout(widths, [[1, 2], [3], [], []], 2.0)
    assert xs[2] - xs[1] == 7.5


def test_deep_trees_do_not_recurse():
    n = 3000
    xs = tree_layout([1.0] * n, [[i + 1] for i in range(n - 1)] + [[]], 1.0)
    assert xs == [0.0] * n
