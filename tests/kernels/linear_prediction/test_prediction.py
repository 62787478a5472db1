"""Adaptive linear prediction: against weighted least squares solved directly, steps, causality, silence."""

from __future__ import annotations

import numpy as np
import pytest

from catena.kernels.linear_prediction import cpu, reference

IMPLEMENTATIONS = [reference, cpu]


def make_values(n: int, t: int, seed: int = 0) -> np.ndarray:
    """Sums of two sines with noise, from -1 to 1."""
    rng = np.random.default_rng(seed)
    pitch = rng.uniform(0.02, 0.3, (n, 2))
    phase = 2 * np.pi * pitch[..., None] * np.arange(t)
    return 0.4 * np.sin(phase).sum(axis=1) + rng.normal(scale=0.05, size=(n, t))


def solved_prediction(values: np.ndarray, order: int) -> float:
    """The prediction of the next value by coefficients from the normal equations."""
    forgetting = 1 - 1 / (reference.MEMORY * order)
    padded = np.concatenate((np.zeros(order), values))
    n = len(values)
    covariance = np.eye(order) * forgetting**n / reference.START
    products = np.zeros(order)
    for i in range(n):
        past = padded[i : i + order][::-1]
        weight = forgetting ** (n - 1 - i)
        covariance += weight * np.outer(past, past)
        products += weight * past * values[i]
    return float(np.linalg.solve(covariance, products) @ padded[n:][::-1])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("order", [1, 2, 5])
def test_means_equal_weighted_least_squares(implementation: object, order: int) -> None:
    values = make_values(2, 60)
    states = reference.start((order,), 2)
    found = implementation.read_((order,), states, values)[..., 0, :]  # type: ignore[attr-defined]
    for row in range(2):
        for t in (0, 1, 7, 30, 59):
            expected = min(max(solved_prediction(values[row, : t + 1], order), -1.0), 1.0)
            assert found[row, t, 0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_scales_are_running_means_of_the_sizes_of_errors(implementation: object) -> None:
    values = make_values(1, 40)
    found = implementation.read_((3,), reference.start((3,), 1), values)[0, :, 0]  # type: ignore[attr-defined]
    before = np.concatenate(([0.0], found[:-1, 0]))
    np.testing.assert_allclose(found[:, 3], values[0] - before, atol=1e-6)
    for part, kept in ((1, 0.99), (2, 0.88)):
        scale = 0.2
        for t in range(40):
            scale = kept * scale + (1 - kept) * abs(values[0, t] - before[t])
            assert found[t, part] == pytest.approx(scale, abs=1e-6)


@pytest.mark.parametrize("orders", [(1,), (4, 17), (3, 2, 33)])
def test_compiled_predictors_equal_the_reference(orders: tuple[int, ...]) -> None:
    values = make_values(3, 400)
    states = [reference.start(orders, 3) for _ in range(2)]
    expected, found = (one.read_(orders, own, values) for one, own in zip(IMPLEMENTATIONS, states, strict=True))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(states[1], states[0], rtol=1e-6, atol=1e-7)


def test_predictors_are_independent_of_each_other_and_of_other_rows() -> None:
    values = make_values(3, 100)
    found = cpu.read_((2, 9), reference.start((2, 9), 3), values)
    for row in range(3):
        for p, order in enumerate((2, 9)):
            alone = cpu.read_((order,), reference.start((order,), 1), values[row : row + 1])
            assert np.array_equal(alone[0, :, 0], found[row, :, p])


def test_steps_equal_one_call_exactly() -> None:
    values = make_values(2, 300)
    states, stepped = reference.start((4, 20), 2), reference.start((4, 20), 2)
    whole = cpu.read_((4, 20), states, values)
    steps = [cpu.read_((4, 20), stepped, values[:, t : t + 1]) for t in range(300)]
    assert np.array_equal(np.concatenate(steps, axis=1), whole)
    assert np.array_equal(stepped, states)


def test_later_values_change_no_earlier_prediction() -> None:
    values = make_values(1, 80)
    whole = cpu.read_((6,), reference.start((6,), 1), values)
    for t in (0, 1, 40, 79):
        changed = values.copy()
        changed[:, t + 1 :] = 0.9
        found = cpu.read_((6,), reference.start((6,), 1), changed)
        assert np.array_equal(found[:, : t + 1], whole[:, : t + 1])
        assert t == 79 or not np.array_equal(found, whole)


def test_opposite_sign_gives_opposite_means_and_errors() -> None:
    values = make_values(1, 200)
    one, other = (cpu.read_((7,), reference.start((7,), 1), x) for x in (values, -values))
    assert np.array_equal(one * np.array([-1, 1, 1, -1], np.float32), other)


def test_predictable_series_are_learned_and_changes_forgotten() -> None:
    t = np.arange(2000)
    values = np.where(t < 1000, np.sin(0.3 * t), np.sin(0.9 * t + 1))[None] * 0.5
    found = cpu.read_((2,), reference.start((2,), 1), values)[0, :, 0]
    assert np.abs(found[200:999, 3]).max() < 1e-3
    assert np.abs(found[1300:, 3]).max() < 1e-3


@pytest.mark.parametrize("level", [0.0, 1e-4])
def test_long_silence_keeps_numbers_finite(level: float) -> None:
    rng = np.random.default_rng(1)
    sound = 0.3 * np.sin(0.2 * np.arange(3000)) + 0.01 * rng.normal(size=3000)
    values = np.concatenate((sound, np.full(60_000, level), sound))[None]
    states = reference.start((16,), 1)
    found = cpu.read_((16,), states, values)[0, :, 0]
    assert np.isfinite(found).all()
    assert np.abs(found[:, 0]).max() <= 1
    inverse = states[0, 4 + 32 :].reshape(16, 16)
    assert np.array_equal(inverse, inverse.T)
    assert np.linalg.eigvalsh(inverse).min() > 0
    assert np.abs(found[-1000:, 3]).mean() < 0.02
