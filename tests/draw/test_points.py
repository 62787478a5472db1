"""Points and paths over them."""

from __future__ import annotations

import numpy as np
import pytest

from catena.draw.points import draw_path
from catena.draw.terminal.points import COLUMNS, ROWS, sketch_points
from catena.errors import DataError
from tests.draw.reading import read

SQUARE = [(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0)]


def test_path_joins_its_points_and_closed_path_is_filled():
    found = read(draw_path(np.array(SQUARE), [(0, 1, 2, 0), (3, 2)], title="two ways"))
    at = {k: found.text(str(k)).box.middle for k in range(4)}
    ring, open_way = found.having("path", "s-accent")
    for way, line in (((0, 1, 2, 0), ring), ((3, 2), open_way)):
        wanted = [at[k] for k in way]
        for (x, y), (u, v) in zip(line.points, wanted, strict=True):
            assert (x, y) == pytest.approx((u, v), abs=2.0)
    assert len(found.having("path", "f-heat")) == 1
    assert at[1][0] - at[0][0] == pytest.approx(2 * (at[0][1] - at[3][1]), rel=0.01), "x and y have one scale"
    assert at[3][1] < at[0][1], "y goes up"
    assert found.title == "two ways"


def test_single_points_and_empty_paths_are_drawn():
    assert read(draw_path([(3.0, 3.0)], [(0,), ()])).text("0")
    with pytest.raises(DataError, match="indices from 0 to 3"):
        draw_path(SQUARE, [(0, 4)])
    with pytest.raises(DataError, match="nothing to draw"):
        draw_path([], [])


def test_sketch_points_keeps_relative_positions():
    lines = sketch_points(SQUARE).splitlines()
    assert (len(lines), len(lines[0])) == (ROWS, COLUMNS)
    assert (lines[0][0], lines[0][-1], lines[-1][0], lines[-1][-1]) == ("3", "2", "0", "1")
    assert sketch_points([(1.0, 1.0)]) == "0"
