"""Trellises: discs by probability, the best path through them, lines by transition probability."""

from __future__ import annotations

import numpy as np
import pytest

from catena.draw.trellis import LARGEST, draw_trellis
from catena.errors import DataError, ShapeError
from tests.draw.reading import read

WORDS, TAGS = ["flights", "to", "Rome"], ["O", "B"]
MARGINALS = np.array([[0.75, 0.25], [1.0, 0.0], [0.04, 0.96]])


def discs(found):
    return [mark for mark in found.marks if mark.kind == "circle" and mark.classes != ("f-paper",)]


def test_area_of_disc_is_its_probability():
    found = discs(read(draw_trellis(WORDS, TAGS, MARGINALS)))
    for mark, chance in zip(found, MARGINALS.ravel(), strict=True):
        radius = float(mark.attributes["r"])
        if chance > 0.05:
            assert radius == pytest.approx(LARGEST * np.sqrt(chance), abs=0.01)
    assert "f-line" in found[3].classes, "what is impossible is grey"


def test_columns_are_words_and_rows_are_tags():
    found = read(draw_trellis(WORDS, TAGS, MARGINALS))
    marks = discs(found)
    for i, word in enumerate(WORDS):
        for q, tag in enumerate(TAGS):
            x, y = marks[2 * i + q].box.middle
            assert x == pytest.approx(found.text(word).box.middle[0], abs=0.02)
            assert y == pytest.approx(found.text(tag).box.middle[1], abs=2.0)


@pytest.mark.parametrize("path", [["O", "O", "B"], [0, 0, 1]])
def test_path_is_drawn_through_its_discs(path):
    found = read(draw_trellis(WORDS, TAGS, MARGINALS, path=path))
    marks = discs(found)
    assert [i for i, mark in enumerate(marks) if "f-best" in mark.classes] == [0, 2, 5]
    lines = found.having("line", "s-best")
    assert len(lines) == 2
    assert lines[1].points == (marks[2].box.middle, marks[5].box.middle)
    assert found.description == "Best path: flights O .75; to O 1; Rome B .96"


def test_lines_follow_transitions_and_improbable_ones_are_omitted():
    steps = np.zeros((3, 2, 2))
    steps[0] = np.inf  # ignored
    steps[1] = [[0.75, 0.0], [0.25, 0.0]]
    steps[2] = [[0.04, 0.96], [0.001, 0.0]]
    lines = read(draw_trellis(WORDS, TAGS, MARGINALS, transitions=steps)).having("line", "s-accent")
    assert [float(line.attributes["stroke-width"]) for line in lines] == pytest.approx([3.8, 1.8, 0.96, 4.64], abs=0.01)
    assert len(read(draw_trellis(WORDS, TAGS, MARGINALS)).having("line", "s-line")) == 8


def test_numbers_are_printed_unless_disabled():
    shown = [mark.text for mark in read(draw_trellis(WORDS, TAGS, MARGINALS)).texts()]
    assert {".75", ".25", "1", ".04", ".96"} <= set(shown)
    assert len(read(draw_trellis(WORDS, TAGS, MARGINALS, numbers=False)).texts()) == 5


def test_right_to_left_words_start_at_right():
    found = read(draw_trellis(["שלום", "עולם"], TAGS, MARGINALS[:2]))
    assert found.text("שלום").box.x0 > found.text("עולם").box.x1
    assert found.text("B").box.x0 > found.text("שלום").box.x1


@pytest.mark.parametrize(
    ("marginals", "options", "error", "sentence"),
    [
        (MARGINALS.T, {}, ShapeError, r"marginals must have shape \[3, 2\] \(words by tags\), got \[2, 3\]"),
        ([1.0, 2.0], {}, ShapeError, r"marginals must have the axes \[t, k\], got the shape \[2\]"),
        ([[1.0], [1.0, 2.0]], {}, ShapeError, r"marginals must be numbers with the axes \[t, k\], got list"),
        (MARGINALS * 2, {}, DataError, r"probabilities in \[0, 1\], got 1.5 at marginals\[0, 0\]. Convert"),
        (MARGINALS + np.nan, {}, DataError, r"marginals must not contain nan, got nan at marginals\[0, 0\]"),
        (MARGINALS, {"path": ["O"]}, ShapeError, "path must have 3 entries, one per entry of words"),
        (MARGINALS, {"path": ["O", "O", "X"]}, DataError, r"path\[2\] must be one of 2 tags, got 'X'"),
        (MARGINALS, {"path": [0, 2, 0]}, DataError, r"path\[1\] must be one of 2 tags, got 2"),
        (MARGINALS, {"transitions": np.zeros((2, 2, 2))}, ShapeError, r"transitions must have shape \[3, 2, 2\]"),
    ],
)
def test_invalid_arguments_raise(marginals, options, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_trellis(WORDS, TAGS, marginals, **options)


def test_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(MARGINALS, requires_grad=True)
    assert draw_trellis(WORDS, TAGS, tensor) == draw_trellis(WORDS, TAGS, MARGINALS)
