"""Trees in the form that networks accept: binary, without chains, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data.examples import SourceLocation, Tree
from catena.data.readers.brackets import parse, to_text
from catena.tasks.classify.trees.data import TreeLimits, TreeShape, branching_tree, build_shape, relabel_tree

BINARY = TreeLimits(2, chains=False)


def nested(shape: TreeShape, node: int = 0) -> object:
    """A shape as nested lists: the label, followed by a word or by the children."""
    below = [nested(shape, i) for i, parent in enumerate(shape.parents) if parent == node]
    return [shape.labels[node], *(below or [shape.words[node]])]


@pytest.mark.parametrize(
    ("text", "fit", "expected"),
    [
        ("(A (b x) (c y))", BINARY, ["A", ["b", "x"], ["c", "y"]]),
        ("(A (b x) (c y) (d z))", BINARY, ["A", ["b", "x"], ["", ["c", "y"], ["d", "z"]]]),
        ("(A (b x) (c y) (d z))", TreeLimits(2, False, right=False), ["A", ["", ["b", "x"], ["c", "y"]], ["d", "z"]]),
        (
            "(A (b x) (c y) (d z) (e w))",
            BINARY,
            ["A", ["b", "x"], ["", ["c", "y"], ["", ["d", "z"], ["e", "w"]]]],
        ),
        (
            "(A (b x) (c y) (d z) (e w))",
            TreeLimits(3, True),
            ["A", ["b", "x"], ["c", "y"], ["", ["d", "z"], ["e", "w"]]],
        ),
        (
            "(A (b x) (c y) (d z) (e w))",
            TreeLimits(3, True, right=False),
            ["A", ["", ["b", "x"], ["c", "y"]], ["d", "z"], ["e", "w"]],
        ),
        ("(A (b x) (c y) (d z))", TreeLimits(None, True), ["A", ["b", "x"], ["c", "y"], ["d", "z"]]),
        ("(A (B (c x)))", BINARY, ["A", "x"]),
        ("(A (B (c x)))", TreeLimits(2, chains=True), ["A", ["B", ["c", "x"]]]),
        ("(A (B (c x) (d y)))", BINARY, ["A", ["c", "x"], ["d", "y"]]),
        ("( (A (c x) (d y)))", BINARY, ["A", ["c", "x"], ["d", "y"]]),
        ("( (A (c x) (d y)))", TreeLimits(None, chains=True), ["A", ["c", "x"], ["d", "y"]]),
        ("(A x)", BINARY, ["A", "x"]),
    ],
)
def test_build_shape_within_limits(text: str, fit: TreeLimits, expected: object) -> None:
    assert nested(build_shape(parse(text), fit)) == expected


words = st.sampled_from(["x", "y", "z"])
labels = st.sampled_from(["A", "B", "2"])
PLACE = SourceLocation("here", 1)
trees = st.recursive(
    st.builds(lambda label, word: Tree(label, (), word, PLACE), labels, words),
    lambda below: st.builds(
        lambda label, children: Tree(label, tuple(children), None, PLACE),
        labels,
        st.lists(below, min_size=1, max_size=5),
    ),
    max_leaves=12,
)
fits = st.builds(
    lambda most, chains, right: TreeLimits(most, chains, right),
    st.sampled_from([None, 2, 3]),
    st.booleans(),
    st.booleans(),
)


def preorder(tree: Tree) -> list[Tree]:
    return [tree, *(node for child in tree.children for node in preorder(child))]


@given(trees, fits)
def test_shape_keeps_word_order_and_origins(tree: Tree, fit: TreeLimits) -> None:
    shape = build_shape(tree, fit)
    assert [word for word in shape.words if word is not None] == list(tree.words())
    assert shape.parents[0] == -1
    assert all(parent < node for node, parent in enumerate(shape.parents))
    counts = [shape.parents.count(node) for node in range(len(shape.parents))]
    if fit.most is not None:
        assert max(counts) <= fit.most
    if not fit.chains:
        assert 1 not in counts
    nodes = preorder(tree)
    assert len(shape.origins) == len(nodes)
    for node, here in zip(nodes, shape.origins, strict=True):
        if node.word is not None:
            assert shape.words[here] == node.word
        if fit.chains:
            assert shape.labels[here] == node.label
    assert set(range(len(shape.parents))) - set(shape.origins) == {
        n for n, label in enumerate(shape.labels) if not label
    }


@given(trees)
def test_relabel_tree_assigns_labels_in_preorder(tree: Tree) -> None:
    names = [f"n{i}" for i in range(len(preorder(tree)))]
    changed = relabel_tree(tree, names)
    assert [node.label for node in preorder(changed)] == names
    assert relabel_tree(changed, [node.label for node in preorder(tree)]) == tree


def test_deep_trees_do_not_recurse() -> None:
    tree = Tree("0", (), "x", PLACE)
    for _ in range(3000):
        tree = Tree("1", (Tree("0", (), "y", PLACE), tree), None, PLACE)
    shape = build_shape(tree, BINARY)
    assert len(shape.parents) == 6001
    assert to_text(relabel_tree(tree, ["2"] * 6001)).startswith("(2 (2 y) (2 (2 y)")


@pytest.mark.parametrize(
    ("text", "right", "expected"),
    [
        ("a b c", True, "(L ( a) ( ( b) ( c)))"),
        ("a b c", False, "(L ( ( a) ( b)) ( c))"),
        ("a", True, "(L a)"),
        ("", True, "(L )"),
    ],
)
def test_branching_tree_of_words(text: str, right: bool, expected: str) -> None:
    assert to_text(branching_tree(text.split(), "L", PLACE, right)) == expected
