"""Dependency arcs: none coincide, each touches its words, labels have space, for all trees including crossing ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.draw.arcs import DrawnArc, draw_arcs, levels, ports
from catena.errors import DataError, ShapeError
from tests.draw.reading import Mark, Read, assert_apart, read

WORDS = ["Economic", "news", "had", "little", "effect", "on", "financial", "markets", "."]
HEADS = [2, 3, 0, 5, 3, 5, 8, 6, 3]
LABELS = ["amod", "nsubj", "root", "amod", "obj", "prep", "amod", "pobj", "punct"]


@st.composite
def all_heads(draw: st.DrawFn) -> list[int]:
    n = draw(st.integers(1, 9))
    return [draw(st.integers(0, n).filter(lambda head, i=i: head != i + 1)) for i in range(n)]


def arcs_of(heads: list[int]) -> list[DrawnArc]:
    return [DrawnArc(head - 1, word) for word, head in enumerate(heads)]


def within(a: DrawnArc, b: DrawnArc) -> bool:
    return b.left <= a.left and a.right <= b.right


@given(all_heads())
def test_overlapping_arcs_have_different_heights_and_outer_is_higher(heads):
    arcs = arcs_of(heads)
    found = levels(arcs)
    for i, a in enumerate(arcs):
        for j, b in enumerate(arcs[:i]):
            if a.head < 0 or b.head < 0:
                continue
            if max(a.left, b.left) < min(a.right, b.right):
                assert found[i] != found[j]
            if within(a, b) and (a.left, a.right) != (b.left, b.right):
                assert found[i] < found[j]
    highest = max((level for level, arc in zip(found, arcs, strict=True) if arc.head >= 0), default=0)
    assert all(found[i] == highest + 1 for i, arc in enumerate(arcs) if arc.head < 0)
    assert set(range(1, highest + 1)) <= set(found), "no height is left empty"


@given(all_heads())
def test_each_arc_end_has_its_own_port(heads):
    arcs = arcs_of(heads)
    ends = [end for at_word in ports(arcs, len(heads)) for end in at_word]
    assert sorted(ends) == sorted(
        [(i, False) for i in range(len(arcs))] + [(i, True) for i, arc in enumerate(arcs) if arc.head >= 0]
    )


def brackets(found: Read) -> list[Mark]:
    """Return the lines of arcs, without arrow heads."""
    return [mark for mark in found.marks if mark.kind == "path" and any(name.startswith("s-") for name in mark.classes)]


@settings(max_examples=40)
@given(all_heads(), st.booleans())
def test_arcs_touch_words_they_join_and_no_two_coincide(heads, mirrored):
    words = [f"w{i}" * (1 + i % 3) for i in range(len(heads))]
    direction = "right-to-left" if mirrored else "left-to-right"
    labels = [f"a long label {i}" for i in range(len(heads))]
    found = read(draw_arcs(words, heads, labels, direction=direction))
    boxes = [mark.box for mark in found.texts() if "14" in mark.attributes["font-size"]]
    lines = brackets(found)
    assert len(lines) == len(heads)
    verticals, horizontals = [], []
    for word, (head, line) in enumerate(zip(heads, lines, strict=True)):
        start, end = line.points[0], line.points[-1]
        middle = boxes[word].middle[0]
        assert abs(end[0] - middle) <= max(boxes[word].width, 8 * len(heads)) / 2 + 4
        assert boxes[word].y0 - 16 < end[1] < boxes[word].y0
        verticals.append(end[0])
        if head:
            assert abs(start[0] - boxes[head - 1].middle[0]) <= max(boxes[head - 1].width, 8 * len(heads)) / 2 + 4
            verticals.append(start[0])
            horizontals.append((line.box.y0, line.box.x0, line.box.x1))
            label = found.text(labels[word]).box
            assert line.box.x0 < label.x0
            assert label.x1 < line.box.x1
    assert min((abs(a - b) for i, a in enumerate(verticals) for b in verticals[:i]), default=9.0) > 4.0
    for i, (y, x0, x1) in enumerate(horizontals):
        for other, left, right in horizontals[:i]:
            assert abs(y - other) > 5 or x1 <= left + 2 or right <= x0 + 2
    assert_apart(found.texts())


def test_arrow_is_at_dependent():
    found = read(draw_arcs(["a", "b"], [2, 0]))
    tips = [mark.points[0] for mark in found.marks if mark.kind == "path" and "fill" not in mark.attributes]
    assert tips[0][0] == pytest.approx(found.text("a").box.middle[0])
    arc, root = brackets(found)
    assert arc.points[-1][0] == tips[0][0]
    assert root.box.x0 == pytest.approx(root.box.x1, abs=2.0), "the root's arrow falls straight down"


def test_nested_arcs_at_word_do_not_cross_there():
    order = ports(arcs_of([2, 0, 2, 2, 2]), 5)[1]
    assert order == [(0, True), (1, False), (4, True), (3, True), (2, True)]
    both = ports(arcs_of([3, 3, 0]), 3)[2]
    assert both == [(1, True), (0, True), (2, False)]


def test_labels_are_on_their_arcs():
    found = read(draw_arcs(WORDS, HEADS, LABELS))
    for line, label in zip(brackets(found), LABELS, strict=True):
        near = [t for t in found.texts() if t.text == label and line.box.x0 <= t.box.middle[0] <= line.box.x1]
        assert any(abs(t.box.middle[1] - line.box.y0) < 12 for t in near)


def test_probabilities_fade_arcs_and_are_written():
    found = read(draw_arcs(["a", "b", "c"], [2, 0, 2], ["x", "root", "y"], probabilities=[1.0, 1.0, 0.25]))
    assert {"x 1", "root 1", "y .25"} <= {mark.text for mark in found.texts()}
    assert [line.attributes.get("opacity") for line in brackets(found)] == [None, None, "0.4"]


def test_second_tree_is_below_and_differences_are_marked():
    other = [2, 3, 0, 5, 3, 3, 8, 6, 3]
    found = read(draw_arcs(WORDS, other, LABELS, other_heads=HEADS, other_labels=LABELS))
    lines = brackets(found)
    middle = found.text("news").box.middle[1]
    assert sum(line.box.y1 < middle for line in lines) == sum(line.box.y0 > middle for line in lines) == len(WORDS)
    assert [line for line in lines if "s-bad" in line.classes] == [lines[5]]
    labels = ["amod", "nsubj", "root", "amod", "OBJ", *LABELS[5:]]
    relabeled = brackets(read(draw_arcs(WORDS, HEADS, labels, other_heads=HEADS, other_labels=LABELS)))
    assert [i for i, line in enumerate(relabeled) if "s-bad" in line.classes] == [4]


def test_tags_are_below_words():
    found = read(draw_arcs(["a", "b"], [2, 0], tags=["T1", "T2"]))
    assert found.text("T1").box.y0 > found.text("a").box.y1 - 4
    assert found.text("T1").box.middle[0] == found.text("a").box.middle[0]


def test_words_without_head_have_no_arc():
    assert len(brackets(read(draw_arcs(["a", "b", "c"], [-1, 0, -1])))) == 1


def test_right_to_left_words_start_at_right():
    found = read(draw_arcs(["ראיתי", "כלב"], [0, 1]))
    assert found.text("ראיתי").box.x0 > found.text("כלב").box.x1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "sentence"),
    [
        (([], []), {}, DataError, "There is nothing to draw: words is empty"),
        ((["a"], [0, 1]), {}, ShapeError, "heads must have 1 entries, one per entry of words, got 2"),
        ((["a", "b"], [0, 3]), {}, DataError, r"heads\[1\] must be from 0 \(the root\) to 2 .*got 3"),
        ((["a", "b"], [0, 2]), {}, DataError, r"heads\[1\] must not be the word itself, got 2"),
        ((["a"], [0], ["x", "y"]), {}, ShapeError, "labels must have 1 entries, one per entry of words"),
        ((["a"], [0]), {"tags": []}, ShapeError, "tags must have 1 entries, one per entry of words, got 0"),
        ((["a"], [0]), {"probabilities": [1.5]}, DataError, r"must be probabilities in \[0, 1\], got 1.5 at .*\[0\]"),
        ((["a"], [0]), {"probabilities": [[1.0]]}, ShapeError, r"probabilities must have the axes \[t\]"),
        ((["a"], [0]), {"other_heads": [1]}, DataError, r"other_heads\[0\] must not be the word itself, got 1"),
    ],
)
def test_invalid_arguments_raise(arguments, options, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_arcs(*arguments, **options)
