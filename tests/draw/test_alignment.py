"""Alignments: links between words, and paths through the grid."""

from __future__ import annotations

import numpy as np
import pytest

from catena.draw.alignment import CELL, draw_alignment_path, draw_links, path_of_operations
from catena.errors import DataError, ShapeError
from tests.draw.reading import read

SOURCE, TARGET = ["das", "ist", "gut"], ["that", "is", "good", "!"]


def test_links_join_their_words():
    found = read(draw_links(SOURCE, TARGET, [(0, 0), (1, 1), (2, 2)]))
    for i, link in enumerate(found.having("path", "s-accent")):
        source, target = found.text(SOURCE[i]).box, found.text(TARGET[i]).box
        assert link.points[0][0] == pytest.approx(source.middle[0], abs=0.02)
        assert link.points[-1][0] == pytest.approx(target.middle[0], abs=0.02)
        assert source.y1 - 4 < link.points[0][1] < link.points[-1][1] < target.y0 + 4
    assert "f-soft" in found.text("!").classes, "a word without a link is paler"


def test_probable_links_are_stronger_and_on_top():
    links = read(draw_links(SOURCE, TARGET, [(0, 0, 0.9), (1, 1, 0.1), (2, 2, 1.0)])).having("path", "s-accent")
    assert [link.attributes.get("opacity") for link in links] == ["0.19", "0.91", None]
    assert links[0].tooltip == "ist – is: .10"


def test_each_sequence_has_its_own_direction():
    found = read(draw_links(["שלום", "עולם"], ["hello", "world"], [(0, 0), (1, 1)]))
    assert found.text("שלום").box.x0 > found.text("עולם").box.x1
    assert found.text("hello").box.x1 < found.text("world").box.x0


def test_path_runs_over_corners_of_grid():
    path = [(0, 0), (1, 1), (1, 2), (2, 2)]
    found = read(draw_alignment_path(["a", "b"], ["a", "c"], path))
    dots = [mark.box.middle for mark in found.marks if mark.kind == "circle"]
    assert dots == [(j * CELL, i * CELL) for i, j in path]
    steps = [line for line in found.marks if line.kind == "line" and line.attributes["stroke-width"] == "3"]
    assert [step.classes for step in steps] == [("s-good",), ("s-accent",), ("s-accent",)]
    assert found.description == "a – a; nothing – c; b – nothing"
    other = read(draw_alignment_path(["a"], ["b"], [(0, 0), (1, 1)]))
    assert len(other.having("line", "s-best")) == 1, "a pair that differs"


def test_operations_become_path():
    path = path_of_operations([0, 1, 2, -1, -1])
    assert path == [(0, 0), (1, 1), (1, 2), (2, 2)]
    assert path_of_operations([]) == [(0, 0)]
    with pytest.raises(DataError, match=r"operations\[1\] must be 0, 1, 2 or -1, got 3"):
        path_of_operations([0, 3])


def test_cells_are_shaded_by_probability():
    found = read(draw_alignment_path(["a", "b"], ["c"], [(0, 0)], probabilities=[[0.25], [0.0]]))
    assert [mark.attributes["opacity"] for mark in found.having("rect", "f-heat")] == ["0.25"]
    assert found.text(".25").box.x0 < CELL / 2


@pytest.mark.parametrize("link", [(3, 0), (0, 4), (-1, 0), (0, 0, 1.5)])
def test_links_out_of_range_raise(link):
    with pytest.raises(DataError, match=r"links\[0\] must join one of 3 source and 4 target positions"):
        draw_links(SOURCE, TARGET, [link])


@pytest.mark.parametrize(
    ("path", "options", "error", "sentence"),
    [
        ([], {}, DataError, "There is nothing to draw: path is empty"),
        ([(0, 5)], {}, DataError, r"path must have points from \(0, 0\) to \(3, 4\), got \(0, 5\)"),
        (
            [(0, 0), (2, 1)],
            {},
            DataError,
            r"one symbol of one or both sequences per step, got \(0, 0\) to \(2, 1\)",
        ),
        ([(1, 1), (0, 0)], {}, DataError, r"one symbol of one or both sequences"),
        ([(0, 0)], {"probabilities": np.zeros((4, 3))}, ShapeError, r"probabilities must have shape \[3, 4\]"),
    ],
)
def test_invalid_paths_raise(path, options, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_alignment_path(SOURCE, TARGET, path, **options)
