"""Calibration: bins and errors against loops, the fitted temperature against golden section and its own gradient."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics.calibration import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    expected_calibration_error,
    fit_temperature,
    reliability_bins,
    temperature_loss,
)
from tests.oracle import metrics as oracle


def drawn(seed: int, n: int, k: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn from their softmax at a temperature."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, k))
    return logits, np.argmax(logits / temperature + rng.gumbel(size=(n, k)), axis=1)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), k=st.integers(2, 4), bins=st.integers(1, 12))
def test_the_error_equals_the_definition(seed: int, n: int, k: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    rows, ids = rng.dirichlet(np.ones(k), size=n), rng.integers(0, k, size=n)
    error = expected_calibration_error(ids, rows, bins)
    assert error == pytest.approx(oracle.calibration_error(ids.tolist(), rows.tolist(), bins), abs=1e-12)
    assert error.signature == f"ece|bins:{bins}|n={n}"


def test_bins_are_closed_on_the_right() -> None:
    rows = [[0.5, 0.5], [0.75, 0.25], [0.76, 0.24], [1.0, 0.0]]
    found = reliability_bins([0, 1, 0, 0], rows, bins=4)
    assert [(b.low, b.high, b.n) for b in found] == [(0, 0.25, 0), (0.25, 0.5, 1), (0.5, 0.75, 1), (0.75, 1, 2)]
    assert (found[0].confidence, found[0].accuracy, found[0].gap) == (None, None, 0)
    assert (found[1].confidence, found[1].accuracy, found[1].gap) == (0.5, 1, 0.5)
    assert (found[2].confidence, found[2].accuracy, found[2].gap) == (0.75, 0, 0.75)
    assert found[3].gap == pytest.approx(0.12)


def test_a_model_that_knows_its_confidence_has_no_error() -> None:
    rows = [[0.75, 0.25]] * 4
    assert expected_calibration_error([0, 0, 0, 1], rows) == pytest.approx(0, abs=1e-12)
    assert expected_calibration_error([1, 1, 1, 1], rows) == pytest.approx(0.75)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), temperature=st.floats(0.3, 8))
def test_temperature_equals_golden_section(seed: int, k: int, temperature: float) -> None:
    logits, ids = drawn(seed, 30, k, temperature)
    fitted = fit_temperature(logits, ids)
    best = oracle.best_temperature(logits.tolist(), ids.tolist(), LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)
    assert fitted == pytest.approx(best, rel=1e-5)  # golden section sees half of the digits


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), temperature=st.floats(0.2, 10))
def test_the_loss_equals_the_definition(seed: int, temperature: float) -> None:
    logits, ids = drawn(seed, 10, 3, 1.0)
    loss = temperature_loss(logits + 1000, ids, temperature)
    assert loss == pytest.approx(oracle.temperature_loss((logits + 1000).tolist(), ids.tolist(), temperature))
    assert loss.signature == f"nll|temperature:{temperature:.6g}|n=10"


def test_no_temperature_nearby_does_better() -> None:
    logits, ids = drawn(1, 500, 4, 2.5)
    fitted = fit_temperature(logits, ids)
    h = 1e-4
    rows = logits.tolist()
    above, here, below = (oracle.smoothed_loss(rows, ids.tolist(), fitted * step) for step in (1 + h, 1, 1 - h))
    assert here < above
    assert here < below
    assert (above - below) / (2 * h) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5, 6.0])
def test_the_temperature_that_made_the_labels_is_found_again(temperature: float) -> None:
    logits, ids = drawn(2, 20_000, 5, temperature)
    assert fit_temperature(logits, ids) == pytest.approx(temperature, rel=0.05)


def test_scaling_the_logits_scales_the_temperature_and_shifting_them_does_nothing() -> None:
    logits, ids = drawn(3, 300, 3, 1.5)
    fitted = fit_temperature(logits, ids)
    assert fit_temperature(4 * logits, ids) == pytest.approx(4 * fitted, rel=1e-9)
    shifts = np.random.default_rng(0).normal(size=(300, 1)) * 50
    assert fit_temperature(logits + shifts, ids) == pytest.approx(fitted, rel=1e-9)


def test_examples_that_do_not_decide() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 3.0]])
    assert fit_temperature(logits / 1000, [0, 1]) == LOWEST_TEMPERATURE  # always right, by next to nothing
    assert fit_temperature(logits, [1, 0]) == HIGHEST_TEMPERATURE  # always wrong
    assert fit_temperature(np.ones((3, 4)), [0, 1, 2]) == 1.0  # says nothing
    assert fit_temperature([[0.1], [7.0]], [0, 0]) == 1.0  # one label


@pytest.mark.parametrize("n", [1, 4, 50, 2000])
@pytest.mark.parametrize("margin", [0.5, 8.0, 90.0])
def test_n_right_answers_claim_no_more_than_the_rule_of_succession(n: int, margin: float) -> None:
    logits, ids = np.zeros((n, 3)), np.arange(n) % 3
    logits[np.arange(n), ids] = margin
    scaled = np.exp(logits / fit_temperature(logits, ids))
    confidences = (scaled / scaled.sum(1, keepdims=True)).max(1)
    assert confidences == pytest.approx((n + 1) / (n + 2), abs=1e-9)


def test_smoothed_targets_cost_less_than_they_spare() -> None:
    """On new examples of the same kind: far better where few were seen, and no worse to speak of where many were."""

    def loss_on_new(seed: int, n: int) -> float:
        seen, new = drawn(seed, n, 2, 0.5), drawn(seed + 100, 1000, 2, 0.5)
        return temperature_loss(*new, fit_temperature(*seen)) - temperature_loss(*new, 0.5)

    assert max(loss_on_new(seed, 12) for seed in range(10)) < 0.2  # without them above 1: all of the 12 are right
    assert np.mean([loss_on_new(seed, 1000) for seed in range(10)]) < 0.002


def test_impossible_labels_change_nothing() -> None:
    logits, ids = drawn(4, 200, 3, 2.0)
    padded = np.concatenate((logits, np.full((200, 1), -math.inf)), axis=1)
    assert fit_temperature(padded, ids) == pytest.approx(fit_temperature(logits, ids), rel=1e-12)
    assert temperature_loss(padded, ids, 2.0) == pytest.approx(temperature_loss(logits, ids, 2.0))


def test_invalid_input_raises_error() -> None:
    with pytest.raises(DataError, match=r"^Logits must be finite for the correct label .*Remove examples"):
        fit_temperature([[0.0, -math.inf]], [1])
    with pytest.raises(DataError, match=r"^Logits must be finite"):
        fit_temperature([[0.0, math.inf]], [0])
    with pytest.raises(DataError, match=r"^temperature needs numbers, got nan in the row of example 0"):
        temperature_loss([[0.0, math.nan]], [0], 1.0)
    with pytest.raises(ValueError, match=r"^temperature must be above 0, got 0.0"):
        temperature_loss([[0.0, 1.0]], [0], 0.0)
    with pytest.raises(ValueError, match=r"^bins must be at least 1, got 0"):
        reliability_bins([0], [[1.0]], bins=0)
    with pytest.raises(DataError, match=r"Probabilities must be at least 0 and sum to 1"):
        expected_calibration_error([0], [[2.0, 3.0]])
