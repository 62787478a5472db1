"""Top-k accuracy, log loss and Brier score: against loops and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.probabilities import brier_score, log_loss, top_k_accuracy
from tests.oracle import metrics as oracle


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[list[float]]]:
    """Ids, and rows of probabilities with ties and zeros in them."""
    k = draw(st.integers(1, 4))
    n = draw(st.integers(1, 6))
    weights = draw(st.lists(st.lists(st.integers(0, 3), min_size=k, max_size=k), min_size=n, max_size=n))
    rows = [[w / sum(row) for w in row] if sum(row) else [1 / k] * k for row in weights]
    return draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), rows


@given(problem=problems(), k=st.integers(1, 5))
def test_scores_equal_the_definitions(problem: tuple[list[int], list[list[float]]], k: int) -> None:
    ids, rows = problem
    assert top_k_accuracy(ids, rows, k) == pytest.approx(float(oracle.top_k(ids, rows, k)))
    assert log_loss(ids, rows) == pytest.approx(oracle.log_loss(ids, rows))
    assert brier_score(ids, rows) == pytest.approx(oracle.brier(ids, rows), abs=1e-12)


@given(problem=problems())
def test_the_first_of_the_top_is_the_argmax(problem: tuple[list[int], list[list[float]]]) -> None:
    ids, rows = problem
    assert top_k_accuracy(ids, rows, 1) == np.mean(np.argmax(rows, axis=1) == ids)
    assert top_k_accuracy(ids, rows, len(rows[0])) == 1


def test_scores_equal_those_of_scikit_learn() -> None:
    strangers = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.ones(5), size=200)
    ids = rng.integers(0, 5, size=200)
    labels = list(range(5))
    assert log_loss(ids, rows) == pytest.approx(strangers.log_loss(ids, rows, labels=labels), abs=1e-12)
    for k in (1, 2, 4):
        assert top_k_accuracy(ids, rows, k) == strangers.top_k_accuracy_score(ids, rows, k=k, labels=labels)
    two = rows[:, :2] / rows[:, :2].sum(1, keepdims=True)
    theirs = strangers.brier_score_loss(ids % 2, two[:, 1])
    assert brier_score(ids % 2, two) == pytest.approx(2 * theirs)


def test_a_right_label_with_probability_zero_is_an_infinite_loss() -> None:
    assert log_loss([0, 1], [[0.0, 1.0], [0.0, 1.0]]) == math.inf
    assert str(float(log_loss([1, 1], [[0.0, 1.0], [0.0, 1.0]]))) == "0.0", (
        "certainty costs nothing, and is not written as -0"
    )


def test_the_worst_brier_score_is_two() -> None:
    assert brier_score([0], [[0.0, 1.0, 0.0]]) == 2


def test_signatures() -> None:
    ids, rows = [0, 1], np.array([[0.5, 0.5], [0.25, 0.75]], dtype=np.float32)
    assert top_k_accuracy(ids, rows, 2).signature == "accuracy|top:2|n=2"
    assert log_loss(ids, rows).signature == "log-loss|unit:nats|n=2"
    assert brier_score(ids, rows).signature == "brier|n=2"


@pytest.mark.parametrize(
    ("ids", "rows", "sentence"),
    [
        (
            [0],
            [[0.5, 0.5], [0.5, 0.5]],
            r"log loss needs one id and one row .* ids of shape \(1,\) and rows of shape \(2, 2\)",
        ),
        ([[0]], [[0.5, 0.5]], r"log loss needs one id and one row .* ids of shape \(1, 1\) and rows of shape \(1, 2\)"),
        ([0], [0.5], r"log loss needs one id and one row .* ids of shape \(1,\) and rows of shape \(1,\)"),
        ([], np.zeros((0, 2)), "log loss needs at least one example, got none"),
        ([0.0], [[0.5, 0.5]], "log loss needs integers as ids, got float64"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "log loss needs ids from 0 to 1, got 2 for example 1"),
        ([-1], [[0.5, 0.5]], "log loss needs ids from 0 to 1, got -1 for example 0"),
        ([0, 0], [[0.5, 0.5], [math.nan, 1.0]], "log loss needs numbers, got nan in the row of example 1"),
        (
            [0, 0],
            [[0.5, 0.5], [3.0, -1.0]],
            "Probabilities must be at least 0 and sum to 1, got the sum 2 and the minimum -1 in example 1",
        ),
        ([0], [[1.5, -0.5]], "Probabilities must be at least 0 .* the sum 1 and the minimum -0.5 .*Pass the softmax"),
    ],
)
def test_invalid_input_raises_error(ids: object, rows: object, sentence: str) -> None:
    with pytest.raises(DataError, match=f"^{sentence}"):
        log_loss(np.asarray(ids), np.asarray(rows))


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"^k must be at least 1, got 0"):
        top_k_accuracy([0], [[1.0]], 0)
