from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.outputs.word_trees import balanced_tree, clustered_tree, expected_depth, huffman_tree, tree_paths
from tests.oracle.outputs import huffman_cost, walk

COUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


@given(COUNTS)
def test_huffman_tree_has_minimum_expected_depth(counts: list[int]) -> None:
    floor = [max(c, 1) for c in counts]
    paths = tree_paths(huffman_tree(counts))
    assert sum(c * d for c, d in zip(floor, paths.depths.tolist(), strict=True)) == huffman_cost(floor)
    entropy = -sum(c / sum(floor) * math.log2(c / sum(floor)) for c in floor)
    assert entropy - 1e-9 <= expected_depth(paths, floor) < entropy + 1


@given(st.integers(1, 300))
def test_balanced_tree_has_minimum_depth(m: int) -> None:
    depths = tree_paths(balanced_tree(m)).depths
    assert depths.max() == math.ceil(math.log2(m)) if m > 1 else depths.tolist() == [0]
    assert depths.max() - depths.min() <= 1


VECTORS = st.integers(1, 40).flatmap(
    lambda m: st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, -2.0]), min_size=2, max_size=2), min_size=m, max_size=m)
)


def some_trees(counts: list[int], vectors: list[list[float]]) -> list[np.ndarray]:
    return [huffman_tree(counts), balanced_tree(len(counts)), clustered_tree(np.array(vectors))]


@given(COUNTS, VECTORS)
def test_tree_paths_lead_to_each_leaf_once(counts: list[int], vectors: list[list[float]]) -> None:
    for children in some_trees(counts, vectors):
        found = walk(children.tolist())
        paths = tree_paths(children)
        assert sorted(found) == list(range(len(children) + 1))
        for leaf, way in found.items():
            part = slice(paths.starts[leaf], paths.starts[leaf + 1])
            assert list(zip(paths.nodes[part].tolist(), paths.left[part].tolist(), strict=True)) == way


@given(COUNTS, VECTORS)
def test_tree_children_come_after_their_parents(counts: list[int], vectors: list[list[float]]) -> None:
    for children in some_trees(counts, vectors):
        assert len(children) == len(counts) - 1 or len(children) == len(vectors) - 1
        for node, pair in enumerate(children.tolist()):
            assert all(child < 0 or child > node for child in pair)


def test_clustered_tree_splits_distant_clusters_first() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[10.0, 0], [-10.0, 1], [-10.0, -1]])
    names = np.array([0, 1, 2, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2])
    x = centers[names] + rng.normal(size=(len(names), 2)) * 0.05
    children = clustered_tree(x)
    paths = tree_paths(children)
    first = paths.left[paths.starts[:-1]]
    assert len(set(first[names == 0])) == 1
    assert set(first[names == 0]) != set(first[names != 0])
    second = paths.nodes[paths.starts[:-1] + 1], paths.left[paths.starts[:-1] + 1]
    for name in (1, 2):
        assert len(set(zip(second[0][names == name], second[1][names == name], strict=True))) == 1
    apart = {tuple(part[names == name][0] for part in second) for name in (1, 2)}
    assert len(apart) == 2


def test_clustered_tree_splits_at_the_gap_not_the_median() -> None:
    x = np.array([[0.0], [0.1], [0.2], [0.3], [0.4], [0.5], [9.0], [9.1]])
    paths = tree_paths(clustered_tree(x))
    first = paths.left[paths.starts[:-1]].tolist()
    assert first[:6] == [first[0]] * 6
    assert first[6:] == [not first[0]] * 2


def test_clustered_tree_does_not_become_a_list() -> None:
    """Each vector is four times as far out as the one before: 2-means would split off one at a time."""
    x = 4.0 ** np.arange(60)[:, None]
    depths = tree_paths(clustered_tree(x)).depths
    assert depths.max() <= math.log(60) / math.log(1 / 0.9) + 2
    assert tree_paths(clustered_tree(np.zeros((64, 3)))).depths.tolist() == [6] * 64


def test_expected_depth_is_weighted_by_counts() -> None:
    paths = tree_paths(huffman_tree([1, 1, 2]))
    assert expected_depth(paths, [1, 1, 2]) == pytest.approx(1.5)
    assert expected_depth(paths, [0, 0, 0]) == 0.0
