"""Learning rate schedules equal their formulas."""

from __future__ import annotations

import math

import pytest

from catena.training.config import TrainingConfig
from catena.training.optimize import Plateau, build_schedule, factor


def rates(steps: int, **values: object) -> list[float]:
    settings = TrainingConfig(learning_rate=2.0, max_steps=steps, **values)  # type: ignore[arg-type]
    schedule = build_schedule(settings, steps)
    return [schedule.rate(step) for step in range(1, steps + 1)]


def test_constant_with_warmup() -> None:
    assert rates(3) == [2.0, 2.0, 2.0]
    assert rates(6, warmup_steps=4) == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0, 2.0])


def test_inverse_sqrt_peaks_after_warmup() -> None:
    expected = [2 * s / 4 for s in (1, 2, 3, 4)] + [2 * math.sqrt(4 / s) for s in (5, 6, 7, 8)]
    assert rates(8, schedule="inverse_sqrt", warmup_steps=4) == pytest.approx(expected)
    assert rates(4, schedule="inverse_sqrt") == pytest.approx([2 / math.sqrt(s) for s in (1, 2, 3, 4)])


def test_linear_is_zero_after_last_step() -> None:
    assert rates(4, schedule="linear") == pytest.approx([2 * 4 / 5, 2 * 3 / 5, 2 * 2 / 5, 2 * 1 / 5])
    expected = [1.0, 2.0, 2 * 3 / 4, 2 * 2 / 4, 2 * 1 / 4]
    assert rates(5, schedule="linear", warmup_steps=2) == pytest.approx(expected)


def test_cosine_is_half_a_wave() -> None:
    expected = [1.0, 2.0] + [1 + math.cos(math.pi * k / 4) for k in (1, 2, 3)]
    assert rates(5, schedule="cosine", warmup_steps=2) == pytest.approx(expected)


def test_quarter_cosine_is_the_first_quarter_of_a_wave() -> None:
    expected = [1.0, 2.0] + [2 * math.cos(math.pi / 2 * k / 4) for k in (1, 2, 3)]
    assert rates(5, schedule="quarter_cosine", warmup_steps=2) == pytest.approx(expected)


def test_elapsed_time_lowers_the_rate_of_schedules_that_end() -> None:
    settings = TrainingConfig(learning_rate=2.0, max_steps=11, schedule="linear", warmup_steps=2)
    schedule = build_schedule(settings, 11)
    assert schedule.rate(4, 0.1) == schedule.rate(4), "the steps are ahead of the time"
    assert schedule.rate(4, 0.5) == schedule.rate(6)
    assert schedule.rate(4, 1.0) == schedule.rate(4, 3.0) == schedule.rate(11) > 0
    assert schedule.rate(1, 0.5) == 1.0, "the warm-up goes by steps"
    assert build_schedule(TrainingConfig(learning_rate=2.0), None).rate(4, 0.9) == 2.0


@pytest.mark.parametrize("name", ["linear", "cosine", "quarter_cosine"])
def test_rate_stays_zero_after_last_step(name: str) -> None:
    assert factor(name, 11, 0, 10) == 0.0
    assert factor(name, 99, 0, 10) == 0.0
    with pytest.raises(ValueError, match="requires the last step"):
        factor(name, 1, 0, None)


def test_plateau_lowers_rate_after_patience() -> None:
    plateau = Plateau(0.5, patience=2)
    reached = []
    for is_best in (True, False, False, False, True, False, False, False, False):
        plateau.evaluated(is_best)
        reached.append(plateau.reached)
    assert reached == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]


def test_only_plateau_depends_on_evaluations() -> None:
    for name, expected in (("plateau", 1.0), ("constant", 2.0)):
        schedule = build_schedule(TrainingConfig(learning_rate=2.0, schedule=name, plateau_patience=1), None)  # type: ignore[arg-type]
        schedule.evaluated(True)
        schedule.evaluated(False)
        assert schedule.rate(1) == expected
