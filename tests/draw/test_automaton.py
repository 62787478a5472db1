"""Finite-state machines: every state and arc, initial and final states, labels and lines that do not collide."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.draw.automaton import draw_automaton
from catena.errors import DataError
from tests.draw.reading import assert_apart, assert_inside, read

ARCS = [
    (0, 1, "a", 0.5),
    (0, 1, "b", 0.25),
    (1, 2, "c", 1),
    (0, 2, "", 2.5),
    (2, 3, "<eps>", 4),
    (2, 2, "d", 0.1),
    (2, 3, ("x", "")),
    (3, 1, "back", None),
]


def test_labels_weights_and_epsilon_are_written():
    found = read(draw_automaton(ARCS, [0], {3: 0.75}))
    shown = [mark.text for mark in found.texts()]
    assert {"a / 0.5", "b / 0.25", "c / 1", "ε / 2.5", "ε / 4", "d / 0.1", "x:ε", "back", "0.75"} <= set(shown)
    assert {"0", "1", "2", "3"} <= set(shown)
    assert "begins in 0; ends in 3" in found.description


def states(found):
    return [mark for mark in found.marks if mark.kind == "rect" and {"f-faint", "s-ink"} <= set(mark.classes)]


def test_final_states_have_two_outlines_and_initial_ones_arrow():
    found = read(draw_automaton(ARCS, [0], [2, 3]))
    boxes = states(found)
    inner = [mark for mark in found.having("rect", "s-ink") if mark.attributes.get("fill") == "none"]
    assert len(boxes) == 4
    assert len(inner) == 2
    stubs = found.having("line", "s-ink")
    assert len(stubs) == 1
    assert stubs[0].box.x1 <= boxes[0].box.x0


def test_arcs_between_same_states_share_line():
    found = read(draw_automaton(ARCS, [0], [3]))
    lines = [mark for mark in found.marks if mark.kind == "path" and "s-edge" in mark.classes]
    assert len(lines) == 6, "five pairs of states and one loop"


def test_marked_arcs():
    found = read(draw_automaton(ARCS, [0], [3], best=[0, 2]))
    assert len(found.having("path", "s-best")) == 2
    assert {mark.text for mark in found.having("text", "f-best")} == {"a / 0.5", "c / 1"}


def test_states_may_have_names_and_initial_weights():
    found = read(draw_automaton([("start", "end", "x")], {"start": 1.5}, ["end"]))
    assert {"start", "end", "x", "1.5"} == {mark.text for mark in found.texts()}


def test_machine_without_arcs_is_drawn():
    assert len(states(read(draw_automaton([], [0], [0])))) == 1


def test_many_arcs_between_two_states_are_summed_up():
    found = read(draw_automaton([(0, 1, f"w{i}") for i in range(30)], [0], [1]))
    shown = [mark.text for mark in found.texts()]
    assert "… 23 more" in shown
    assert "w6" in shown
    assert "w7" not in shown
    assert "w29" in found.text("… 23 more").tooltip


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["a", "long label", ""])), max_size=12))
def test_labels_keep_clear_of_states_and_of_lines_of_other_arcs(arcs):
    picture = draw_automaton(arcs, [0], [5])
    assert_inside(picture)
    found = read(picture)
    assert_apart(found.texts())
    labels = [mark for mark in found.texts() if mark.attributes["font-size"] == "11.5" and not mark.text.isdigit()]
    boxes = states(found)
    for label in labels:
        assert not any(label.box.overlaps(state.box) for state in boxes)
    for i, a in enumerate(boxes):
        assert not any(a.box.overlaps(b.box) for b in boxes[:i])
    # A line is drawn before all labels; a label on the line must be its own, at exactly its height.
    lines = [mark for mark in found.marks if mark.kind == "path" and "s-edge" in mark.classes]
    for label in labels:
        inner = label.box.grown(-2.0)
        near = [line for line in lines if inner.overlaps(line.box)]
        assert sum(any(_inside(inner, point) for point in dense(line)) for line in near) <= 1


def dense(line):
    points = line.points
    for (x0, y0), (x1, y1) in pairwise(points):
        yield from ((x0 + (x1 - x0) * k / 4, y0 + (y1 - y0) * k / 4) for k in range(5))


def _inside(box, point) -> bool:
    return box.x0 < point[0] < box.x1 and box.y0 < point[1] < box.y1


@pytest.mark.parametrize(
    ("arcs", "initial", "best", "sentence"),
    [
        ([], [], (), "There is nothing to draw: initial is empty"),
        ([(0, 1, "a")], [0], (1,), "best must hold indices of arcs from 0 to 0, got 1"),
    ],
)
def test_invalid_arguments_raise(arcs, initial, best, sentence):
    with pytest.raises(DataError, match=sentence):
        draw_automaton(arcs, initial, [0], best=best)
