"""Rankings against every order that ties allow."""

from __future__ import annotations

import numpy as np
import pytest

from catena.errors import DataError
from catena.metrics.diversity import distinct
from catena.metrics.ranking import RECIPROCAL_RANK, RankCounts, recall_at_k, recall_measure, reciprocal_rank, standing
from tests.oracle.retrieval import expected_recall, expected_reciprocal_rank


def test_scores_with_ties_are_expected_over_all_orders() -> None:
    generator = np.random.default_rng(0)
    for _ in range(30):
        scores = generator.integers(0, 3, generator.integers(1, 6)).astype(float).tolist()
        where = standing(scores)
        for k in (1, 2, 5):
            assert recall_at_k(where, k) == pytest.approx(expected_recall(scores, k), abs=1e-12)
        assert reciprocal_rank(where) == pytest.approx(expected_reciprocal_rank(scores), abs=1e-12)


def test_measures_are_means_over_questions_and_not_over_groups() -> None:
    groups = [[RankCounts(0, 0), RankCounts(1, 0), RankCounts(3, 0)], [RankCounts(0, 1)]]
    assert float(recall_measure(1)([1, 2], groups)) == pytest.approx((1 + 0 + 0 + 0.5) / 4)
    assert float(recall_measure(2)([1, 2], groups)) == pytest.approx((1 + 1 + 0 + 1) / 4)
    assert float(RECIPROCAL_RANK([1, 2], groups)) == pytest.approx((1 + 1 / 2 + 1 / 4 + 3 / 4) / 4)


def test_invalid_input_raises_error() -> None:
    with pytest.raises(DataError, match="one of the 2 scored ones, got 2"):
        standing([1.0, 2.0], 2)
    with pytest.raises(DataError, match="must be numbers"):
        standing([float("nan"), 2.0])
    with pytest.raises(DataError, match="at least 1, got 0"):
        recall_measure(0)
    with pytest.raises(DataError, match="at least one question"):
        RECIPROCAL_RANK([], [])
    with pytest.raises(DataError, match="got 1 of questions and 2 of predictions"):
        RECIPROCAL_RANK([0], [[RankCounts(0, 0)], [RankCounts(0, 0)]])


def test_distinct_counts_different_ngrams() -> None:
    texts = [["a", "b", "a", "b"], ["a", "b"], []]
    assert distinct(texts, 1) == pytest.approx(2 / 6)
    assert distinct(texts, 2) == pytest.approx(2 / 4)
    assert distinct([["a"]], 2) == 0.0
    with pytest.raises(DataError, match="n must be at least 1, got 0"):
        distinct(texts, 0)
