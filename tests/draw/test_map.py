"""Maps: one scale for both axes, labels next to their points and without overlaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.draw.map import DOT, draw_map, placed_labels
from catena.draw.svg import Box
from catena.errors import DataError, ShapeError
from tests.draw.reading import read

places = st.lists(st.tuples(st.floats(0, 120), st.floats(0, 60)), min_size=1, max_size=25)


@settings(max_examples=40)
@given(places, st.sampled_from(["word", "a longer name", "x"]))
def test_labels_overlap_no_label_and_no_point(places, name):
    boxes = placed_labels(places, [name] * len(places))
    shown = [box for box in boxes if box is not None]
    for a, b in itertools.combinations(shown, 2):
        assert not a.overlaps(b)
    dots = [Box(x, y, x, y).grown(DOT) for x, y in places]
    assert not any(box.overlaps(dot) for box in shown for dot in dots)
    for box, (x, y) in zip(boxes, places, strict=True):
        if box is not None:
            near = box.grown(DOT + 3)
            assert near.x0 <= x <= near.x1
            assert near.y0 <= y <= near.y1


def test_label_without_space_is_only_in_tooltip():
    points = np.zeros((12, 2))
    points[:, 0] = np.arange(12) * 0.01
    points[-1] = 1.0
    found = read(draw_map(points, [f"name {i}" for i in range(12)]))
    shown = [mark.text for mark in found.texts()]
    assert "name 0" in shown, "the first is tried first"
    assert len(shown) < 12
    assert [mark.tooltip for mark in found.marks if mark.kind == "circle"] == [f"name {i}" for i in range(12)]


def test_distances_have_one_scale_and_y_points_upwards():
    found = read(draw_map([(0, 0), (4, 0), (0, 1)], ["a", "b", "c"], width=400, height=400))
    a, b, c = [mark.box.middle for mark in found.marks if mark.kind == "circle"]
    assert b[0] - a[0] == pytest.approx(400.0)
    assert a[1] - c[1] == pytest.approx(100.0)


def test_groups_have_colors_and_legend():
    found = read(draw_map([(0, 0), (1, 1), (2, 0)], ["a", "b", "c"], groups=["one", "two", "one"]))
    dots = [mark.classes[0] for mark in found.marks if mark.kind == "circle"]
    assert dots == ["f-c0", "f-c1", "f-c0", "f-c0", "f-c1"], "three points and two samples"
    assert {"one", "two"} <= {mark.text for mark in found.texts()}


def test_coincident_points_and_empty_labels_are_drawn():
    found = read(draw_map([(1, 1), (1, 1)], ["", "b"]))
    assert [mark.text for mark in found.texts()] == ["b"]


@pytest.mark.parametrize(
    ("points", "error", "sentence"),
    [
        ([(0, 0, 0)], ShapeError, r"points must have shape \[1, 2\] \(x and y for each label\), got \[1, 3\]"),
        ([(0, np.inf)], DataError, "points has a value that is not finite"),
        ([0, 0], ShapeError, r"points must have the axes \[n, c\], got the shape \[2\]"),
    ],
)
def test_invalid_arguments_raise(points, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_map(points, ["a"])
