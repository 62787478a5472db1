"""Charts: a cell for each span, above the words it covers; the tree is framed."""

from __future__ import annotations

import numpy as np
import pytest

from catena.draw.chart import HEIGHT, draw_chart
from catena.errors import DataError, ShapeError
from tests.draw.reading import read

WORDS = ["she", "saw", "him"]
SCORES = np.array([[0.5, 0.25, 1.0], [9.0, 0.6, 0.75], [9.0, 9.0, 0.7]])


def cells(found):
    return found.having("rect", "f-faint")


def test_every_span_has_cell_over_its_words():
    found = read(draw_chart(WORDS, SCORES))
    boxes = [mark.box for mark in cells(found)]
    assert len(boxes) == 6
    width = boxes[-1].width + 4
    for text, (i, j) in {
        "1": (0, 2),
        ".25": (0, 1),
        ".75": (1, 2),
        ".50": (0, 0),
        ".60": (1, 1),
        ".70": (2, 2),
    }.items():
        x, y = found.text(text).box.middle
        words = [found.text(word).box.middle[0] for word in WORDS[i : j + 1]]
        assert x == pytest.approx((words[0] + words[-1]) / 2, abs=0.02)
        assert y == pytest.approx(-(j - i + 0.5) * HEIGHT, abs=2.0)
        assert any(box.x0 < x < box.x1 and box.y0 < y < box.y1 for box in boxes)
    assert found.text("saw").box.middle[0] - found.text("she").box.middle[0] == pytest.approx(width, abs=0.02)
    assert "9" not in [mark.text for mark in found.texts()], "what stands below the diagonal is not read"


def test_largest_number_is_strongest():
    heat = read(draw_chart(WORDS, SCORES)).having("rect", "f-heat")
    strengths = [float(mark.attributes["opacity"]) for mark in heat]
    assert strengths == [1.0, 0.25, 0.75, 0.5, 0.6, 0.7]


def test_numbers_below_zero_are_shaded_from_least_to_largest():
    scores = np.array([[-4.0, -1.0, -3.0], [0, -2.0, -np.inf], [0, 0, -4.0]])
    found = read(draw_chart(WORDS, scores))
    strengths = {mark.tooltip: float(mark.attributes["opacity"]) for mark in found.having("rect", "f-heat")}
    assert strengths["she saw: −1"] == 1.0
    assert strengths["she saw him: −3"] == 0.33
    assert "saw him: impossible" in {mark.tooltip for mark in cells(found)}
    assert len(found.texts()) == 3 + 5


def test_labels_are_best_ones_or_those_of_tree():
    scores = np.stack([SCORES, SCORES * 0.5], -1)
    found = read(draw_chart(WORDS, scores, ["X", "Y"], tree=[(0, 2, 1), (0, 0, 0), (1, 2, 0), (-1, -1, -1)]))
    shown = [mark.text for mark in found.texts()]
    assert shown.count("Y") == 1
    assert shown.count("X") == 5
    assert ".50" in shown, "half of the 1 of the best label"
    frames = found.having("rect", "s-best")
    assert len(frames) == 3
    assert found.description == "she: X .50; she saw him: Y .50; saw him: X .75"


def test_right_to_left_words_start_at_right():
    words = ["ראיתי", "את", "הכלב"]
    found = read(draw_chart(words, SCORES, tree=[(0, 1)]))
    assert found.text(words[0]).box.x0 > found.text(words[2]).box.x1
    (frame,) = found.having("rect", "s-best")
    assert frame.box.middle[0] == pytest.approx(
        (found.text(words[0]).box.middle[0] + found.text(words[1]).box.middle[0]) / 2
    )


@pytest.mark.parametrize(
    ("scores", "options", "error", "sentence"),
    [
        (
            SCORES[:2],
            {},
            ShapeError,
            r"scores must have shape \[3, 3\] \(words by words\), got \[2, 3\]",
        ),
        (SCORES, {"labels": ["X"]}, ShapeError, r"scores must have the axes \[t, t, k\], got the shape \[3, 3\]"),
        (SCORES, {"tree": [[0, 1, 2, 3]]}, ShapeError, r"rows of 2 or 3 entries, got 4"),
        (SCORES, {"tree": [[0, 3]]}, DataError, r"tree\[0\] must be a span of 3 words, got \(0, 3\)"),
        (SCORES, {"tree": [[2, 1]]}, DataError, r"tree\[0\] must be a span of 3 words, got \(2, 1\)"),
        (
            SCORES[..., None],
            {"labels": ["X"], "tree": [[0, 1, 1]]},
            DataError,
            "one of 1 labels, got 1",
        ),
    ],
)
def test_invalid_arguments_raise(scores, options, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_chart(WORDS, scores, **options)
