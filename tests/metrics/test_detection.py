"""Detections, thresholds and rates of false alarms compared to brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.detection import Detection, choose_threshold, find_detections, score_detections, smooth_scores
from catena.metrics.intervals import poisson_interval

CURVES = st.lists(st.integers(0, 9), min_size=1, max_size=40).map(lambda values: np.array(values, np.float64))


def step_by_step(scores: np.ndarray, threshold: float, dead_time: int) -> list[tuple[int, float]]:
    """One frame at a time, as a stream would be read."""
    found, t = [], 0
    while t < len(scores):
        if scores[t] < threshold:
            t += 1
            continue
        best = t
        for s in range(t, min(t + dead_time, len(scores))):
            if scores[s] > scores[best]:
                best = s
        found.append((best, scores[best]))
        t += dead_time
    return found


@given(scores=CURVES, threshold=st.integers(0, 10), dead_time=st.integers(1, 8))
def test_find_detections_equals_a_loop_over_frames(scores: np.ndarray, threshold: int, dead_time: int) -> None:
    assert find_detections(scores, threshold, dead_time) == step_by_step(scores, threshold, dead_time)


def test_one_peak_is_one_detection() -> None:
    scores = np.array([0, 1, 3, 5, 4, 3, 0, 0, 2, 0.5])
    assert find_detections(scores, 2, 5) == [Detection(3, 5.0), Detection(8, 2.0)]
    assert find_detections(scores, 5.5, 5) == []
    assert find_detections(np.zeros(0), 0, 5) == []


@given(scores=CURVES, n=st.integers(1, 10))
def test_smooth_scores_equals_means(scores: np.ndarray, n: int) -> None:
    wanted = [scores[max(0, t - n + 1) : t + 1].mean() for t in range(len(scores))]
    np.testing.assert_allclose(smooth_scores(scores, n), wanted, atol=1e-12)
    np.testing.assert_array_equal(smooth_scores(scores, 1), scores)


@given(curves=st.lists(CURVES, min_size=1, max_size=4), allowed=st.integers(0, 6), dead_time=st.integers(1, 5))
def test_choose_threshold_equals_a_scan_of_all_scores(curves: list[np.ndarray], allowed: int, dead_time: int) -> None:
    found = choose_threshold(curves, 2.0, allowed / 2, dead_time)

    def count(threshold: float) -> int:
        return sum(len(step_by_step(curve, threshold, dead_time)) for curve in curves)

    scores = sorted({float(s) for curve in curves for s in curve}, reverse=True)
    wanted = math.inf
    for score in scores:
        if count(score) > allowed:
            break
        wanted = score
    assert count(found) <= allowed
    if wanted < math.inf:
        assert found == wanted
    else:
        assert found == np.nextafter(scores[0], np.inf)


def test_score_detections_counts_hits_within_the_tolerance() -> None:
    events = [[Detection(10, 1.0)], [Detection(9, 1.0), Detection(40, 2.0)], [], [Detection(22, 3.0)]]
    spans = [(10, 20), (10, 20), (10, 20), (10, 20)]
    alarms = [[Detection(3, 1.0)], [], [Detection(5, 1.0), Detection(90, 1.0)]]
    for tolerance, missed in ((0, 3), (1, 2), (3, 1)):
        report = score_detections(events, spans, alarms, 6.0, 0.5, tolerance)
        assert (report.n_missed, report.misses.value, report.misses.n) == (missed, missed / 4, 4)
        assert (report.n_false_alarms, report.false_alarms.value, report.hours) == (3, 0.5, 6.0)
    assert report.threshold == 0.5
    assert 0.25 in report.misses
    assert 0.5 in report.false_alarms


@pytest.mark.parametrize(
    ("count", "exposure", "low", "high"),
    [(0, 1.0, 0.0, 3.6889), (1, 5.0, 0.00506, 1.11433), (5, 1.0, 1.62349, 11.66833), (100, 10.0, 8.1364, 12.1627)],
)
def test_poisson_interval_equals_published_tables(count: int, exposure: float, low: float, high: float) -> None:
    found = poisson_interval(count, exposure)
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))
    assert found.value == count / exposure


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_poisson_interval_equals_chi_square_quantiles(count: int, level: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    found = poisson_interval(count, 2.0, level)
    low = stats.chi2.ppf((1 - level) / 2, 2 * count) / 2 if count else 0.0
    high = stats.chi2.ppf((1 + level) / 2, 2 * count + 2) / 2
    assert (2 * found.low, 2 * found.high) == (pytest.approx(low, rel=1e-9), pytest.approx(high, rel=1e-9))


def test_wrong_arguments_raise() -> None:
    with pytest.raises(DataError, match=r"dead_time must be at least 1 frame, got 0\. Use"):
        find_detections(np.zeros(3), 0.5, 0)
    with pytest.raises(DataError, match=r"n must be at least 1 frame, got 0\. Use"):
        smooth_scores(np.zeros(3), 0)
    with pytest.raises(DataError, match=r"curves must have a length above 0, got 0 of 1\.0 hours\. Pass"):
        choose_threshold([], 1.0, 1.0, 5)
    with pytest.raises(DataError, match=r"spans must have one entry for each recording, got 1 and 0\. Match"):
        score_detections([], [(0, 1)], [], 1.0, 0.0)
    with pytest.raises(DataError, match=r"exposure above 0, got 3 and 0\. Check"):
        poisson_interval(3, 0)
