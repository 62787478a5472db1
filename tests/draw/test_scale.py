"""Ticks at round values, short text, and the map from values to pixels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.draw.scale import fit_axis, format_fixed, log_ticks, nice_step, probability, short, ticks
from catena.errors import DataError

sizes = st.floats(1e-9, 1e12)
values = st.floats(-1e9, 1e9)


@given(sizes, st.integers(1, 12))
def test_step_is_least_round_number_that_is_large_enough(span, most):
    step = nice_step(span, most)
    power = 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(step / power - f) for f in (1, 2, 5)) < 1e-6
    assert span <= step * most * (1 + 1e-6)
    smaller = power * {1: 0.5, 2: 1, 5: 2}[round(step / power)]
    assert span > smaller * most * (1 - 1e-6)


@given(values, sizes, st.integers(2, 10))
def test_ticks_are_round_equally_far_apart_and_within(low, span, most):
    high = low + span
    if high - low < 1e-6 * max(abs(low), abs(high)):
        return
    found = ticks(low, high, most)
    step = nice_step(high - low, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * step <= t <= high + 1e-6 * step for t in found)
    assert all(abs(t / step - round(t / step)) < 1e-5 for t in found)
    assert low > (found[0] - step) if found else True
    assert high < (found[-1] + step) if found else True


def test_ticks_are_exact_decimals():
    assert ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-1.0, 1.0, 4) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert ticks(3.0, 31.0, 6) == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    assert [str(t) for t in ticks(-0.1, 0.3, 4)] == ["-0.1", "0.0", "0.1", "0.2", "0.3"]


def test_log_ticks_are_powers_of_ten_and_more_if_they_fit():
    assert log_ticks(1.0, 1000.0, 4) == [1.0, 10.0, 100.0, 1000.0]
    assert log_ticks(1.0, 100.0, 8) == [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    assert log_ticks(1.1, 1.9) == [1.1, 1.9]
    assert len(log_ticks(1e-30, 1e30)) <= 8


@given(st.lists(values, min_size=1), st.floats(-100, 100), st.floats(120, 500))
def test_axis_holds_its_values_between_its_ends(found, start, end):
    axis = fit_axis(found, start, end)
    for value in (*found, *axis.marks):
        assert start - 1e-6 * (end - start) <= axis.at(value) <= end + 1e-6 * (end - start)
    assert axis.at(axis.low) == pytest.approx(start)
    assert axis.at(axis.high) == pytest.approx(end)
    middle = (axis.low + axis.high) / 2
    assert axis.at(middle) == pytest.approx((start + end) / 2)


def test_axes_are_widened_to_ticks_or_tight_or_hold_zero():
    assert (fit_axis([0.13, 0.91], 0.0, 1.0).low, fit_axis([0.13, 0.91], 0.0, 1.0).high) == (0.0, 1.0)
    tight = fit_axis([0.13, 0.91], 0.0, 1.0, tight=True)
    assert (tight.low, tight.high) == (0.13, 0.91)
    assert tight.marks == (0.2, 0.4, 0.6, 0.8)
    assert fit_axis([5.0, 9.0], 0.0, 1.0, zero=True).low == 0.0
    assert fit_axis([-5.0, -9.0], 0.0, 1.0, zero=True).high == 0.0
    assert fit_axis([3.0, math.nan, math.inf], 0.0, 1.0).low < 3.0 < fit_axis([3.0], 0.0, 1.0).high
    assert fit_axis([0.0], 0.0, 1.0, zero=True).low == 0.0


def test_equal_ratios_are_equally_far_apart_on_logarithmic_axis():
    axis = fit_axis([1.0, 100.0], 0.0, 10.0, logarithmic=True)
    assert axis.at(10.0) - axis.at(1.0) == pytest.approx(axis.at(100.0) - axis.at(10.0))
    assert fit_axis([7.0], 0.0, 1.0, logarithmic=True).low < 7.0


@pytest.mark.parametrize(
    ("values", "logarithmic", "sentence"),
    [
        ([], False, "There is nothing to draw: no value is finite"),
        ([math.nan, math.inf], False, "There is nothing to draw: no value is finite"),
        ([-1.7e308, 1.7e308], False, "too large for an axis"),
        ([0.0, 1.0], True, "Values on a logarithmic axis must be positive, got 0"),
    ],
)
def test_fit_axis_of_invalid_values_raises(values, logarithmic, sentence):
    with pytest.raises(DataError, match=sentence):
        fit_axis(values, 0.0, 1.0, logarithmic=logarithmic)


def test_short_numbers():
    shown = {0.0: "0", 1.0: "1", 0.98765: "0.988", 12.34: "12.3", 999.4: "999", 9999.0: "9999", 25_000.0: "25k"}
    shown |= {-3e6: "−3M", 2.5e9: "2.5G", 1e12: "1e12", 0.00012: "1.2e−4", -0.5: "−0.5"}
    assert {value: short(value) for value in shown} == shown
    assert [short(v) for v in (math.inf, -math.inf, math.nan)] == ["∞", "−∞", "nan"]


@given(values)
def test_short_numbers_are_correct_to_three_digits(value):
    text = short(value).replace("−", "-")
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if text.endswith(unit):
            assert float(text[:-1]) * factor == pytest.approx(value, rel=0.006)
            return
    assert float(text) == pytest.approx(value, rel=0.006)


def test_probabilities_and_fixed_decimals():
    assert [probability(p) for p in (0.0, 0.07, 0.5, 0.996, 1.0, -1e-9)] == ["0", ".07", ".50", "1", "1", "0"]
    assert [format_fixed(v) for v in (1.0, -2.346, -0.001)] == ["1.00", "−2.35", "0.00"]
