"""The SVG builder writes the requested marks and knows their boxes."""

from __future__ import annotations

import pytest

from catena.draw.svg import MARGIN, Box, Canvas, Path, number
from tests.draw.reading import read


def test_numbers_have_no_more_characters_than_needed():
    assert [number(v) for v in (1.0, -0.0, -0.004, 1.004, 12.346, -3.1, 100.0)] == [
        "1",
        "0",
        "0",
        "1",
        "12.35",
        "-3.1",
        "100",
    ]


def test_boxes():
    box = Box(0.0, 0.0, 4.0, 2.0)
    assert (box.width, box.height, box.middle) == (4.0, 2.0, (2.0, 1.0))
    assert box.grown(1.0) == Box(-1.0, -1.0, 5.0, 3.0)
    assert box.union(Box(3.0, -1.0, 5.0, 1.0)) == Box(0.0, -1.0, 5.0, 2.0)
    assert box.overlaps(Box(3.0, 1.0, 9.0, 9.0))
    assert not box.overlaps(Box(4.0, 0.0, 5.0, 2.0)), "boxes that touch do not overlap"
    assert not box.overlaps(Box(0.0, 2.0, 4.0, 3.0))


def test_view_box_is_what_is_drawn_and_margin():
    canvas = Canvas()
    canvas.rect(Box(-10.0, 5.0, 30.0, 25.0), "ink", "line", width=2.0)
    found = read(canvas.picture("a name", "a description"))
    assert found.view == Box(-11.0, 4.0, 31.0, 26.0).grown(MARGIN)
    assert (found.title, found.description) == ("a name", "a description")


def test_heading_is_title_and_above_everything():
    canvas = Canvas()
    canvas.circle(0.0, 0.0, 10.0, "ink")
    found = read(canvas.picture("a name", "more", heading="<Heading>"))
    assert found.title == "<Heading>"
    assert found.text("<Heading>").box.y1 < -10.0


@pytest.mark.parametrize(("text", "start", "end"), [("word", "start", "end"), ("שלום", "end", "start")])
def test_text_begins_or_ends_at_its_point_in_either_direction(text, start, end):
    """SVG's anchors are swapped for right-to-left text, so that the box stays at the requested position."""
    canvas = Canvas()
    canvas.text(50.0, 0.0, text, anchor="start")
    canvas.text(50.0, 20.0, text, anchor="end")
    canvas.text(50.0, 40.0, text)
    left, right, middle = read(canvas.picture("", "")).texts()
    assert left.attributes.get("text-anchor", "start") == start
    assert right.attributes.get("text-anchor", "start") == end
    assert left.box.x0 == pytest.approx(50.0)
    assert right.box.x1 == pytest.approx(50.0)
    assert middle.box.middle[0] == pytest.approx(50.0)


def test_long_text_is_truncated_and_its_tooltip_is_complete():
    canvas = Canvas()
    box = canvas.text(0.0, 0.0, "x" * 99, most=60.0)
    (mark,) = read(canvas.picture("", "")).texts()
    assert mark.text.endswith("…")
    assert mark.tooltip == "x" * 99
    assert box.width <= 60.0


def test_backed_text_hides_what_is_behind_it():
    canvas = Canvas()
    canvas.line((-50.0, 0.0), (50.0, 0.0))
    canvas.text(0.0, 0.0, "label", backed=True)
    line, paper, text = read(canvas.picture("", "")).marks
    assert (line.kind, paper.kind, text.kind) == ("line", "rect", "text")
    assert paper.classes == ("f-paper",)
    assert paper.box.x0 < text.box.x0
    assert paper.box.x1 > text.box.x1


def test_empty_text_is_not_drawn():
    canvas = Canvas()
    assert canvas.text(3.0, 4.0, "").width == 0.0
    assert canvas.slanted_text(3.0, 4.0, "", 45.0).width < 20.0
    assert canvas.marks == []


@pytest.mark.parametrize("angle", [45.0, 90.0])
def test_slanted_text_rises_from_its_point(angle):
    canvas = Canvas()
    box = canvas.slanted_text(10.0, 20.0, "a long name", angle)
    (mark,) = read(canvas.picture("", "")).texts()
    assert mark.box.y0 == pytest.approx(box.y0, abs=4.0)
    assert mark.box.y0 < -20.0
    assert mark.box.middle[0] == pytest.approx(10.0, abs=1.0) if angle == 90 else mark.box.x1 > 40.0


def test_paths_and_arrow_heads():
    assert str(Path().move(0.0, 1.5).line(2.0, 3.0).curve((1.0, 1.0), (2.0, 2.0), (3.0, 3.333)).close()) == (
        "M0 1.5L2 3C1 1 2 2 3 3.33Z"
    )
    canvas = Canvas()
    canvas.arrow_head((5.0, 0.0), (1.0, 0.0), "ink", size=8.0)
    (mark,) = read(canvas.picture("", "")).marks
    assert mark.points[0] == (5.0, 0.0)
    assert mark.box.x1 == 5.0, "the tip is the foremost point"
    assert mark.box.x0 == -3.0
    assert mark.box.y0 == -mark.box.y1
