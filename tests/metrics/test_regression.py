"""Metrics of predicted numbers against their formulas in plain Python and against scikit-learn."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from catena.errors import DataError
from catena.metrics.correlation import PEARSON, SPEARMAN, pearson, spearman
from catena.metrics.intervals import bootstrap_score_interval, fisher_interval
from catena.metrics.regression import GAUSSIAN_LOG_LIKELIHOOD, MAE, R2, RMSE, gaussian_log_probs, mae, r2, rmse

RNG = np.random.default_rng(0)
GOLD = RNG.normal(1000.0, 2.0, 50)
GUESS = GOLD + RNG.normal(0.3, 1.0, 50)


def test_errors_equal_scikit_learn() -> None:
    from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score  # takes a second

    assert float(rmse(GOLD, GUESS)) == pytest.approx(math.sqrt(mean_squared_error(GOLD, GUESS)), rel=1e-12)
    assert float(mae(GOLD, GUESS)) == pytest.approx(mean_absolute_error(GOLD, GUESS), rel=1e-12)
    assert float(r2(GOLD, GUESS)) == pytest.approx(r2_score(GOLD, GUESS), rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_r2_is_stable_for_large_values(shift: float) -> None:
    gold = [shift + x for x in (1.0, 2.0, 4.0)]
    guess = [shift + x for x in (1.5, 2.0, 3.0)]
    mean = 7 / 3
    total = sum((x - mean) ** 2 for x in (1.0, 2.0, 4.0))
    assert float(r2(gold, guess)) == pytest.approx(1 - 1.25 / total, rel=1e-7)


def test_r2_of_the_mean_is_zero_and_of_equal_references_nan() -> None:
    assert float(r2([1.0, 2.0, 6.0], [3.0, 3.0, 3.0])) == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(r2([0.1, 0.1, 0.1], [0.2, 0.1, 0.0]))


def test_log_likelihood_equals_the_density_of_the_normal_distribution() -> None:
    deviations = RNG.uniform(0.5, 2.0, 50)
    expected = [math.log(NormalDist(m, s).pdf(y)) for y, m, s in zip(GOLD, GUESS, deviations, strict=True)]
    assert np.allclose(gaussian_log_probs(GOLD, GUESS, deviations), expected, rtol=1e-12)
    value = GAUSSIAN_LOG_LIKELIHOOD(GOLD, np.stack((GUESS, deviations), axis=1))
    assert float(value) == pytest.approx(sum(expected) / 50, rel=1e-12)


def test_zero_deviation_is_certain() -> None:
    found = gaussian_log_probs([1.0, 2.0], np.array([1.0, 1.0]), np.zeros(2))
    assert found.tolist() == [math.inf, -math.inf]


def test_directions() -> None:
    assert [metric.higher_is_better for metric in (RMSE, MAE, R2, GAUSSIAN_LOG_LIKELIHOOD)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("metric", "function"), [(PEARSON, pearson), (SPEARMAN, spearman)])
def test_correlation_from_sums_equals_the_definition(metric: object, function: object) -> None:
    assert float(metric(GOLD, GUESS)) == pytest.approx(float(function(GOLD, GUESS)), rel=1e-9)  # type: ignore[operator]


def test_fisher_interval_agrees_with_the_bootstrap() -> None:
    x = RNG.normal(size=2000)
    y = 0.6 * x + RNG.normal(size=2000)
    exact = fisher_interval(float(pearson(x, y)), 2000)
    drawn = bootstrap_score_interval(PEARSON.statistics(x, y), PEARSON.score, np.random.default_rng(1))
    assert exact is not None
    assert (exact.low, exact.high) == (pytest.approx(drawn.low, abs=0.01), pytest.approx(drawn.high, abs=0.01))
    z = NormalDist().inv_cdf(0.975)
    assert math.atanh(exact.high) - math.atanh(exact.value) == pytest.approx(z / math.sqrt(1997))


def test_fisher_interval_needs_four_pairs_and_some_noise() -> None:
    assert fisher_interval(0.5, 3) is None
    assert fisher_interval(1.0, 30) is None
    assert fisher_interval(math.nan, 30) is None


def test_numbers_must_be_finite_and_paired() -> None:
    with pytest.raises(DataError, match="must be finite, got nan or inf"):
        rmse([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(DataError, match="the same length, at least 1, got 1 and 2 values"):
        mae([1.0], [1.0, 2.0])
