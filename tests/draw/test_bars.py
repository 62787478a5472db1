"""Bars and histograms: lengths in proportion, every value counted once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.draw.bars import draw_bars, draw_histogram, histogram_bins
from catena.errors import DataError, ShapeError
from tests.draw.reading import read


def bars(found):
    return [mark.box for mark in found.having("rect", "f-accent")]


def test_lengths_are_in_proportion_and_negative_ones_go_left():
    found = read(draw_bars(["a", "b", "c"], [2.0, 1.25, -1.25]))
    a, b, c = bars(found)
    assert a.width == pytest.approx(1.6 * b.width, abs=0.02)
    assert a.x0 == b.x0 == pytest.approx(c.x1)
    assert c.width == pytest.approx(b.width, abs=0.02)
    assert found.text("−1.25").box.x1 < c.x0
    assert found.text("c").box.x1 < found.text("−1.25").box.x0


def test_intervals_are_drawn_to_scale():
    found = read(draw_bars(["a"], [0.5], intervals=[(0.25, 1.0)]))
    (bar,) = bars(found)
    line = found.having("line", "s-ink")[0]
    assert line.points[0][0] == pytest.approx(bar.x0 + bar.width / 2, abs=0.02)
    assert line.points[1][0] == pytest.approx(bar.x0 + 2 * bar.width, abs=0.02)
    assert found.text("0.5").box.x0 > line.points[1][0]


numbers = st.one_of(st.integers(-50, 50).map(float), st.floats(-1e6, 1e6))


@given(st.lists(numbers, min_size=1, max_size=60), st.one_of(st.none(), st.integers(1, 30)))
def test_every_value_is_in_one_bin_of_equal_width(values, bins):
    found = np.array(values)
    edges, counts = histogram_bins(found, bins)
    assert counts.sum() == len(values)
    assert len(edges) == len(counts) + 1 <= 80
    steps = np.diff(edges)
    assert steps == pytest.approx(steps[0], rel=1e-6)
    assert edges[0] <= found.min() + 1e-6 * steps[0]
    assert found.max() <= edges[-1] + 1e-6 * steps[0]
    expected = [((found >= a - 1e-8 * steps[0]) & (found < b - 1e-8 * steps[0])).sum() for a, b in pairwise(edges)]
    if steps[0] > 1e-6 * np.abs(found).max():
        assert np.abs(np.array(expected) - counts).sum() <= 1, "except for values on the last edge"


def test_integers_are_not_split():
    edges, counts = histogram_bins(np.array([1.0, 2.0, 2.0, 3.0, 9.0]), 60)
    assert list(edges) == list(range(1, 11))
    assert list(counts) == [1, 2, 1, 0, 0, 0, 0, 0, 1]


def test_width_of_bins_follows_spread():
    values = np.arange(1000) / 1000  # IQR 0.5, n^(1/3) = 10: a width of 0.1
    edges, _ = histogram_bins(values)
    assert edges[1] - edges[0] == pytest.approx(0.1)


def test_histogram_has_heights_in_proportion():
    found = read(draw_histogram([1, 1, 1, 2, 4, 4], x_title="size"))
    heights = [box.height for box in bars(found)]
    assert len(heights) == 3, "an empty bin has no bar"
    assert heights[0] == pytest.approx(3 * heights[1], abs=0.05)
    assert heights[2] == pytest.approx(2 * heights[1], abs=0.05)
    assert found.description == "6 numbers from 1 to 4, mean 2.17"
    assert read(draw_histogram([3.5])).having("rect", "f-accent")


@pytest.mark.parametrize(
    ("values", "intervals", "error", "sentence"),
    [
        ([1.0, 2.0], None, ShapeError, r"values must have shape \[1\] \(one for each label\), got \[2\]"),
        ([np.inf], None, DataError, "values must be finite, got inf"),
        ([1.0], [[1.0]], ShapeError, r"intervals must have shape \[1, 2\] \(low and high for each label\)"),
    ],
)
def test_invalid_arguments_raise(values, intervals, error, sentence):
    with pytest.raises(error, match=sentence):
        draw_bars(["a"], values, intervals=intervals)


def test_empty_histogram_raises():
    with pytest.raises(DataError, match="There is nothing to draw: values is empty"):
        draw_histogram([])
