"""Heat maps: shades by size, colors by sign, the same decimals in all cells."""

from __future__ import annotations

import numpy as np
import pytest

from catena.draw.heat import draw_heat, format_values
from catena.errors import DataError, ShapeError
from tests.draw.reading import read

ROWS, COLUMNS = ["a", "b"], ["x", "y", "z"]
TABLE = np.array([[4.0, 0.0, 1.0], [2.0, 8.0, 1.0]])


def strengths(values, **options):
    marks = [m for m in read(draw_heat(values, ROWS, COLUMNS, **options)).marks if m.kind == "rect"][1:]
    return [(m.classes[0], float(m.attributes["opacity"])) for m in marks]


def test_shades_are_fractions_of_largest_value():
    assert [s for _, s in strengths(TABLE)] == pytest.approx([0.5, 0.125, 0.25, 1.0, 0.125], abs=0.01)
    assert [s for _, s in strengths(TABLE, shades="rows")] == pytest.approx([1.0, 0.25, 0.25, 1.0, 0.125], abs=0.01)
    assert [s for _, s in strengths(TABLE, shades="columns")] == pytest.approx([1.0, 1.0, 0.5, 1.0, 1.0], abs=0.01)


def test_signs_have_colors_and_infinity_has_dot():
    found = strengths([[1.0, -2.0, -np.inf], [np.inf, 0.5, 0.0]])
    assert found == [("f-heat", 0.5), ("f-cold", 1.0), ("f-heat", 1.0), ("f-heat", 0.25)]


def test_cells_are_at_their_row_and_column():
    found = read(draw_heat([[11.0, 12.0, 13.0], [21.0, 22.0, 23.0]], ROWS, COLUMNS))
    for i, row in enumerate(ROWS, 1):
        for j, column in enumerate(COLUMNS, 1):
            x, y = found.text(f"{i}{j}").box.middle
            assert x == pytest.approx(found.text(column).box.middle[0], abs=0.02)
            assert y == pytest.approx(found.text(row).box.middle[1], abs=1.0)


def test_all_cells_have_equal_decimals():
    assert format_values(np.array([[0.5, 0.25], [0.0, 1.0]])) == [[".50", ".25"], ["0", "1"]]
    assert format_values(np.array([[3.0, 12.0]])) == [["3", "12"]]
    assert format_values(np.array([[-1.5, 12.25, -np.inf]])) == [["−1.50", "12.25", "·"]]
    assert format_values(np.array([[150.5, 2.0]])) == [["150.5", "2.0"]]
    assert format_values(np.array([[0.0001, 0.00025]])) == [["1e−4", "2.5e−4"]]
    assert format_values(np.array([[-np.inf, np.inf]])) == [["·", "∞"]]


def test_large_tables_have_tooltips_instead_of_numbers():
    n = 40
    found = read(draw_heat(np.ones((n, n)), [f"r{i}" for i in range(n)], [f"c{i}" for i in range(n)]))
    assert len(found.texts()) == 2 * n
    assert found.having("rect", "f-heat")[1].tooltip == "r0, c1: 1"
    assert read(draw_heat(TABLE, ROWS, COLUMNS, numbers=False)).having("rect", "f-heat")[0].tooltip == "a, x: 4"


def test_long_names_of_columns_are_slanted():
    found = read(draw_heat(np.ones((1, 9)), ["r"], [f"a very long name {i}" for i in range(9)]))
    assert all("rotate(-45" in mark.attributes["transform"] for mark in found.texts() if "very" in mark.text)
    assert "transform" not in read(draw_heat(TABLE, ROWS, ["a middling name"] * 3)).texts()[-1].attributes


@pytest.mark.parametrize(
    ("values", "rows", "error", "sentence"),
    [
        (
            TABLE,
            ["a"],
            ShapeError,
            r"values must have shape \[1, 3\] \(rows by columns\), got \[2, 3\]",
        ),
        (TABLE, [], DataError, "There is nothing to draw: rows is empty"),
        ([["x"]], ROWS, ShapeError, r"values must be numbers with the axes \[n, m\], got list"),
    ],
)
def test_invalid_arguments_raise(values, rows, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_heat(values, rows, COLUMNS)
