"""Scores and intervals of predicted Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import r2_score

from catena.tasks.regress.predict import RegressEvaluation

RNG = np.random.default_rng(0)
GOLD = RNG.normal(5, 2, 200)
MEANS = GOLD + RNG.normal(0, 1, 200)
DEVIATIONS = np.full(200, 1.0)
RESULT = RegressEvaluation(GOLD, MEANS, DEVIATIONS)


def test_scores_equal_scipy_and_scikit_learn() -> None:
    scores = RESULT.scores()
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((GOLD - MEANS) ** 2)))
    assert scores["mae"] == pytest.approx(np.mean(np.abs(GOLD - MEANS)))
    assert scores["r2"] == pytest.approx(r2_score(GOLD, MEANS))
    assert scores["pearson"] == pytest.approx(stats.pearsonr(GOLD, MEANS).statistic)
    assert scores["spearman"] == pytest.approx(stats.spearmanr(GOLD, MEANS).statistic)
    assert scores["log_likelihood"] == pytest.approx(stats.norm.logpdf(GOLD, MEANS, DEVIATIONS).mean())


def test_every_score_has_an_interval_around_it() -> None:
    ends = {name: RESULT.interval(name) for name in RESULT.metrics()}
    assert set(ends) == {"rmse", "mae", "r2", "pearson", "spearman", "log_likelihood"}
    for name, value in RESULT.scores().items():
        interval = ends[name]
        assert interval is not None
        assert interval.low < value < interval.high


def test_interval_of_pearson_equals_scipy() -> None:
    interval = RESULT.interval("pearson")
    peer = stats.pearsonr(GOLD, MEANS).confidence_interval(0.95)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(peer.low), pytest.approx(peer.high))


def test_scores_that_do_not_exist_have_no_interval() -> None:
    pair = RegressEvaluation(np.array([1.0, 2.0]), np.array([1.0, 2.5]), np.array([0.0, 1.0]))
    assert pair.interval("r2") is None  # half of the resamples have equal values
    assert pair.interval("log_likelihood") is None  # infinite
    single = RegressEvaluation(GOLD[:1], MEANS[:1], DEVIATIONS[:1])
    assert "pearson" not in single.scores()
    assert single.interval("rmse") is None


def test_coverage_counts_values_inside_their_interval() -> None:
    result = RegressEvaluation(np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.0, 1.9, 2.0, 9.0]), np.ones(4))
    assert result.coverage() == 0.5
    assert result.details()[0] == "values inside their 95 % interval: 50.0 %"
    assert result.details_dict() == {"coverage": 0.5, "n": 4}


def test_results_are_joined() -> None:
    parts = [RegressEvaluation(GOLD[i:j], MEANS[i:j], DEVIATIONS[i:j]) for i, j in ((0, 70), (70, 200))]
    assert RegressEvaluation.join(parts).scores() == RESULT.scores()
