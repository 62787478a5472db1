"""Intervals: against bisection and formulas, and by how often they hold the truth."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics import resampling
from catena.metrics.classification import ACCURACY, f1_measure
from catena.metrics.intervals import (
    Interval,
    bootstrap_interval,
    bootstrap_score_interval,
    mean_interval,
    wilson_interval,
)
from catena.metrics.measure import mean_score, mean_statistics
from tests.oracle import metrics as oracle


def means(sets: np.ndarray) -> np.ndarray:
    return sets.mean(axis=1)


# --- proportions ----------------------------------------------------------------------------------------------


@given(n=st.integers(1, 300), data=st.data(), level=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_ends_are_z_standard_errors_away(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    interval = wilson_interval(successes, n, level)
    low, high = oracle.wilson(successes, n, NormalDist().inv_cdf((1 + level) / 2))
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-9)
    assert interval.value == successes / n
    assert interval.value in interval


def test_wilson_never_leaves_zero_to_one_and_holds_it_at_the_ends() -> None:
    assert wilson_interval(0, 10).low == 0
    assert wilson_interval(10, 10).high == 1
    assert 0 < wilson_interval(0, 10).high < 0.5
    assert 0.5 < wilson_interval(10, 10).low < 1


@pytest.mark.parametrize("p", [0.05, 0.3, 0.8])
def test_wilson_holds_the_truth_about_as_often_as_it_says(p: float) -> None:
    n = 60
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    held = math.fsum(chance for k, chance in enumerate(chances) if p in wilson_interval(k, n))
    assert 0.92 < held < 0.98


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (0, 0)])
def test_invalid_proportion_raises_error(successes: int, n: int) -> None:
    with pytest.raises(DataError, match=f"^successes must be from 0 to n .*, got {successes} and {n}"):
        wilson_interval(successes, n)


# --- means over runs ------------------------------------------------------------------------------------------


def test_the_t_interval_by_hand() -> None:
    interval = mean_interval([0.75, 0.77, 0.76, 0.78, 0.74])
    half = 2.776445 * math.sqrt(0.00025) / math.sqrt(5)  # t of 4 degrees; variance of the five
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.76, 0.76 - half, 0.76 + half), abs=1e-8)
    assert interval.signature == "mean|interval:t|level:95|n=5"


def test_t_interval_equals_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).normal(size=9)
    theirs = stats.t.interval(0.99, 8, loc=values.mean(), scale=stats.sem(values))
    ours = mean_interval(values, level=0.99)
    assert (ours.low, ours.high) == pytest.approx(theirs)


def test_the_t_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    runs = np.random.default_rng(1).normal(3.0, 2.0, size=(400, 5))
    held = np.mean([3.0 in mean_interval(run) for run in runs])
    assert 0.92 < held < 0.98


def test_equal_values_have_an_interval_of_no_width() -> None:
    interval = mean_interval([0.5, 0.5])
    assert (interval.low, interval.high) == (0.5, 0.5)


def test_single_run_raises_error() -> None:
    with pytest.raises(
        DataError, match=r"^The number of values must be at least 2 for an interval, got 1\. Run more seeds"
    ):
        mean_interval([0.5])


# --- bootstrap ------------------------------------------------------------------------------------------------


def test_the_bootstrap_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    samples = rng.normal(2.0, 3.0, size=(300, 100))
    held = np.mean([2.0 in bootstrap_interval(sample, means, rng, resamples=400) for sample in samples])
    assert 0.91 < held < 0.98  # percentiles hold a mean a little less often than 95 %


def test_the_bootstrap_is_the_percentiles_of_all_resamples() -> None:
    values = [0.0, 1.0, 5.0, 2.0]
    rows = [[value] for value in values]
    zeros = [[0.0]] * 4
    every = sorted(oracle.bootstrap_differences(rows, zeros, lambda drawn: sum(row[0] for row in drawn) / 4))
    interval = bootstrap_interval(np.array(values), means, np.random.default_rng(3), resamples=40_000, level=0.8)
    below = every[: len(every) // 10][-1]
    assert interval.value == 2.0
    assert interval.low == pytest.approx(below, abs=0.26)  # a neighboring value of the few that there are
    assert interval.high == pytest.approx(every[-len(every) // 10], abs=0.26)


def test_any_statistic_of_rows_works() -> None:
    rng = np.random.default_rng(4)
    pairs = rng.normal(size=(80, 2))
    pairs[:, 1] += 2 * pairs[:, 0]

    def correlations(sets: np.ndarray) -> np.ndarray:
        x, y = (sets[..., i] - sets[..., i].mean(1, keepdims=True) for i in (0, 1))
        return (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))

    interval = bootstrap_interval(pairs, correlations, rng)
    assert interval.value == pytest.approx(np.corrcoef(pairs.T)[0, 1])
    assert interval.low < interval.value < interval.high < 1
    assert interval.signature == "bootstrap|resamples:1000|level:95|n=80"


def test_sums_and_sets_give_the_same_interval() -> None:
    values = np.random.default_rng(5).normal(size=50)
    by_sets = bootstrap_interval(values, means, np.random.default_rng(6))
    by_sums = bootstrap_score_interval(mean_statistics(values), mean_score, np.random.default_rng(6))
    assert (by_sums.value, by_sums.low, by_sums.high) == pytest.approx((by_sets.value, by_sets.low, by_sets.high))


def test_the_bootstrap_of_an_accuracy_is_near_wilson() -> None:
    gold = ["a"] * 300
    predicted = ["a"] * 240 + ["b"] * 60
    rows = ACCURACY.statistics(gold, predicted)
    interval = bootstrap_score_interval(rows, ACCURACY.score, np.random.default_rng(7), resamples=4000)
    wilson = wilson_interval(240, 300)
    assert (interval.low, interval.high) == pytest.approx((wilson.low, wilson.high), abs=0.012)


def test_f1_has_an_interval() -> None:
    rng = np.random.default_rng(8)
    gold = rng.integers(0, 3, 200)
    predicted = np.where(rng.random(200) < 0.7, gold, rng.integers(0, 3, 200))
    measure = f1_measure([0, 1, 2])
    interval = bootstrap_score_interval(measure.statistics(gold, predicted), measure.score, rng)
    assert interval.value == measure(gold, predicted)
    assert interval.low < interval.value < interval.high


def test_the_same_generator_gives_the_same_interval_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    values = mean_statistics(np.random.default_rng(9).normal(size=20))
    at_once = bootstrap_score_interval(values, mean_score, np.random.default_rng(1), resamples=101)
    monkeypatch.setattr(resampling, "BLOCK", 130)  # six resamples at a time
    in_blocks = bootstrap_score_interval(values, mean_score, np.random.default_rng(1), resamples=101)
    assert in_blocks == at_once
    assert bootstrap_score_interval(values, mean_score, np.random.default_rng(2), resamples=101) != at_once


def test_a_constant_has_an_interval_of_no_width() -> None:
    interval = bootstrap_interval(np.ones(5), means, np.random.default_rng(0))
    assert (interval.low, interval.value, interval.high) == (1, 1, 1)


def test_invalid_input_raises_error() -> None:
    rng = np.random.default_rng(0)

    def undefined(sets: np.ndarray) -> np.ndarray:
        return np.where(sets.sum(1) == 0, np.nan, 1.0)

    with pytest.raises(DataError, match=r"^The statistic is nan in \d+ of 100 resamples, so it has no interval\. Use"):
        bootstrap_interval(np.array([0.0, 0.0, 1.0]), undefined, rng, resamples=100)
    with pytest.raises(DataError, match=r"^Resampling needs at least one example, got none"):
        bootstrap_interval(np.array([]), means, rng)
    with pytest.raises(ValueError, match=r"^The number of resamples must be at least 1, got 0"):
        bootstrap_interval(np.ones(3), means, rng, resamples=0)
    for make in (
        lambda: wilson_interval(1, 2, 95.0),
        lambda: mean_interval([1, 2], 95.0),
        lambda: bootstrap_interval(np.ones(3), means, rng, level=95.0),
        lambda: bootstrap_score_interval(np.ones((3, 2)), mean_score, rng, level=95.0),
    ):
        with pytest.raises(ValueError, match=r"^level must be between 0 and 1, got 95"):
            make()


def test_an_interval_in_words() -> None:
    interval = Interval(0.5, 0.25, 0.75, 0.9, "wilson", 10)
    assert str(interval) == "0.5000 [0.2500, 0.7500]"
    assert interval.signature == "wilson|level:90|n=10"
    assert 0.25 in interval
    assert 0.76 not in interval
