"""Phrase-structure trees: both input types, both directions, comparison with a reference."""

from __future__ import annotations

import pytest

from catena.data.examples import SourceLocation, Tree
from catena.draw.tree import ROW, draw_tree, read_tree, to_brackets
from catena.errors import DataError
from tests.draw.reading import read

SENTENCE = ("S", ("NP", ("DT", "the"), ("NN", "dog")), ("VP", ("V", "saw"), ("NP", ("PRP", "me"))))
WORDS = ["the", "dog", "saw", "me"]


def as_tree(value: object) -> Tree:
    place = SourceLocation("trees.mrg", 1)
    assert isinstance(value, tuple)
    label, *below = value
    if isinstance(below[0], str):
        return Tree(label, (), below[0], place)
    return Tree(label, tuple(as_tree(child) for child in below), None, place)


def test_both_kinds_of_tree_give_same_picture():
    assert draw_tree(as_tree(SENTENCE)) == draw_tree(SENTENCE)


def test_empty_outer_bracket_is_left_out():
    outer = Tree("", (as_tree(SENTENCE),), None, SourceLocation("trees.mrg", 1))
    assert draw_tree(outer) == draw_tree(SENTENCE)


def test_nodes_come_before_their_children_and_know_their_spans():
    nodes = read_tree(SENTENCE)
    assert all(child > node for node, below in enumerate(nodes.children) for child in below)
    assert [nodes.labels[node] for node in nodes.words()] == WORDS
    spans = set(nodes.spans())
    assert {("S", 0, 3), ("NP", 0, 1), ("VP", 2, 3), ("NP", 3, 3), ("V", 2, 2)} <= spans
    assert to_brackets(nodes) == "(S (NP (DT the) (NN dog)) (VP (V saw) (NP (PRP me))))"


@pytest.mark.parametrize("level", [True, False])
def test_words_are_in_order_below_their_tags(level):
    found = read(draw_tree(SENTENCE, level_words=level))
    xs = [found.text(word).box.middle[0] for word in WORDS]
    assert xs == sorted(xs)
    for word, tag in zip(WORDS, ["DT", "NN", "V", "PRP"], strict=True):
        assert found.text(word).box.middle[0] == pytest.approx(found.text(tag).box.middle[0], abs=0.02)
    ys = {word: found.text(word).box.middle[1] for word in WORDS}
    assert (len(set(ys.values())) == 1) == level
    assert found.text("S").box.middle[1] < min(ys.values())


def test_every_edge_joins_node_and_its_child():
    found = read(draw_tree(SENTENCE))
    edges = found.having("path", "s-edge")
    assert len(edges) == len(read_tree(SENTENCE).labels) - 1
    texts = found.texts()
    for edge in edges:
        (x0, y0), (x1, y1) = edge.points[0], edge.points[-1]
        above = [t for t in texts if abs(t.box.middle[0] - x0) < 0.02 and 0 < y0 - t.box.middle[1] < ROW / 2]
        below = [t for t in texts if abs(t.box.middle[0] - x1) < 0.02 and 0 < t.box.middle[1] - y1 < ROW / 2]
        assert len(above) == len(below) == 1


def test_right_to_left_words_start_at_right():
    tree = ("S", ("N", "הכלב"), ("V", "רדף"))
    by_script = read(draw_tree(tree))
    assert by_script.text("הכלב").box.x0 > by_script.text("רדף").box.x1
    forced = read(draw_tree(tree, direction="left-to-right"))
    assert forced.text("הכלב").box.x1 < forced.text("רדף").box.x0
    assert read(draw_tree(SENTENCE, direction="right-to-left")).text("me").box.x1 < 0


def test_nodes_that_reference_lacks_are_marked():
    reference = ("S", ("NP", ("DT", "the"), ("NN", "dog")), ("V", "saw"), ("NP", ("PRP", "me")))
    found = read(draw_tree(SENTENCE, reference=reference))
    marked = [mark for mark in found.texts() if "f-bad" in mark.classes]
    assert [mark.text for mark in marked] == ["VP"]
    assert marked[0].tooltip == "VP: not in the reference"
    assert not any("f-bad" in mark.classes for mark in read(draw_tree(SENTENCE, reference=SENTENCE)).texts())


def test_node_that_occurs_twice_must_occur_twice_in_reference():
    twice, once = ("S", ("X", ("X", "a")), "b"), ("S", ("X", "a"), "b")
    assert len(read(draw_tree(twice, reference=once)).having("text", "f-bad")) == 1


def test_very_deep_trees_are_drawn():
    tree: object = "word"
    for _ in range(1500):
        tree = ("X", tree)
    assert len(read_tree(tree).labels) == 1501


@pytest.mark.parametrize("tree", [("S", 3), (), (1, "a"), ["S", "a"], None])
def test_invalid_tree_raises(tree):
    with pytest.raises(DataError, match="tree must be a word or a tuple of a label and subtrees"):
        draw_tree(tree)


def test_reference_over_other_words_raises():
    with pytest.raises(DataError, match="a tree over the same words, got 1 words for 4"):
        draw_tree(SENTENCE, reference=("S", "a"))
