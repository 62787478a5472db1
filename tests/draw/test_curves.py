"""Curves: points at the right positions, gaps at missing values, series from the rows of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from catena.draw.curves import draw_curves, series_of_rows
from catena.errors import DataError
from tests.draw.reading import read

ROWS = [
    {"step": 10, "epoch": 1, "loss": 2.0, "scores": {"accuracy": 0.5}, "best": True, "note": "x"},
    {"step": 20, "epoch": 2, "loss": None, "scores": {"accuracy": 0.75}},
    {"step": 30, "epoch": 3, "loss": 1.0, "scores": {"accuracy": 0.7}},
]


def test_series_of_rows_joins_nested_names_with_dots():
    found = series_of_rows(ROWS)
    assert list(found) == ["epoch", "loss", "scores.accuracy"]
    assert found["scores.accuracy"] == [(10.0, 0.5), (20.0, 0.75), (30.0, 0.7)]
    assert math.isnan(found["loss"][1][1])
    assert list(series_of_rows(ROWS, x="epoch", names=["loss"])) == ["loss"]


def test_metrics_of_run_can_be_drawn():
    path = Path(__file__).parent.parent / "fixtures" / "run_v2" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert "loss" in read(draw_curves(series_of_rows(rows, names=["loss"]))).title


def test_unknown_series_raises():
    with pytest.raises(DataError, match=r"No row has 'f1' together with 'step'. Choose from: epoch, loss, scores.acc"):
        series_of_rows(ROWS, names=["f1"])


def test_points_agree_with_ticks():
    found = read(draw_curves({"a": [(0, 0), (50, 0.25), (100, 1)]}, y_title="share"))
    (line,) = [mark for mark in found.marks if mark.kind == "path"]
    assert found.text("100").box.middle[0] == pytest.approx(line.points[-1][0], abs=0.02)
    grid = {m.text: m.box.middle[1] for m in found.texts() if m.attributes.get("text-anchor") == "end"}
    (x0, y0), (x1, y1), (x2, y2) = line.points
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.02)
    assert y1 == pytest.approx(y0 + (y2 - y0) / 4, abs=0.02)
    assert y0 == pytest.approx(grid["0"], abs=1.0)
    assert y2 == pytest.approx(grid["1"], abs=1.0)
    assert y2 < y0, "large numbers are above"


def test_points_are_drawn_in_order_of_x():
    shuffled = draw_curves({"a": [(3, 1), (1, 2), (2, 5)]})
    assert shuffled == draw_curves({"a": [(1, 2), (2, 5), (3, 1)]})


def test_non_finite_values_leave_gap():
    points = [(1, 1.0), (2, 2.0), (3, math.nan), (4, 1.0), (5, math.inf), (6, 2.0), (7, 1.0)]
    found = read(draw_curves({"a": points}))
    assert len([mark for mark in found.marks if mark.kind == "path"]) == 2
    assert len([mark for mark in found.marks if mark.kind == "circle"]) == 5


def test_series_have_colors_dashes_and_legend():
    found = read(draw_curves({"train": [(0, 1), (1, 2)], "dev": [(0, 2), (1, 3)]}))
    lines = [mark for mark in found.marks if mark.kind == "path"]
    assert [line.classes for line in lines] == [("s-c0",), ("s-c1",)]
    assert [line.attributes.get("stroke-dasharray") for line in lines] == [None, "7 3"]
    assert found.text("train").box.y1 < min(line.box.y0 for line in lines)
    alone = read(draw_curves({"train": [(0, 1), (1, 2)]}, y_title="loss"))
    assert "train" not in [mark.text for mark in alone.texts()]


@pytest.mark.parametrize(("mark", "text", "x"), [("largest", "7.5", 2), ("least", "0.5", 3)])
def test_best_point_is_marked(mark, text, x):
    found = read(draw_curves({"a": [(0, 3), (2, 7.5), (3, 0.5)]}, mark=mark))
    (ring,) = [m for m in found.marks if m.kind == "circle" and m.attributes.get("fill") == "none"]
    (line,) = [m for m in found.marks if m.kind == "path"]
    assert ring.box.middle == pytest.approx(line.points[{2: 1, 3: 2}[x]], abs=0.02)
    assert found.having("text", "f-c0")[0].text == text


def test_many_points_have_no_dots():
    found = read(draw_curves({"a": [(i, i % 7) for i in range(500)]}))
    assert not [mark for mark in found.marks if mark.kind == "circle"]


def test_equal_ratios_are_equally_far_apart_on_logarithmic_axis():
    (line,) = [
        m for m in read(draw_curves({"a": [(0, 1), (1, 10), (2, 100)]}, logarithmic=True)).marks if m.kind == "path"
    ]
    ys = [y for _, y in line.points]
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.02)


@pytest.mark.parametrize("series", [{}, {"a": []}, {"a": [(0, math.nan)]}])
def test_empty_series_raises(series):
    with pytest.raises(DataError, match="There is nothing to draw"):
        draw_curves(series)
