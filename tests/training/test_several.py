"""Several seeds or folds give a mean and an interval."""

from __future__ import annotations

import math

import pytest

from catena.training.several import run_several


def test_each_number_is_run_once_and_in_order() -> None:
    ran: list[int] = []

    def score_of(seed: int) -> float:
        ran.append(seed)
        return seed / 10

    result = run_several(score_of, [3, 1, 8])
    assert ran == [3, 1, 8]
    assert result.scores == {3: 0.3, 1: 0.1, 8: 0.8}
    assert result.mean == pytest.approx(0.4)
    # Student's t at 0.975 with 2 degrees of freedom is 4.3027 in every table.
    deviation = math.sqrt(((0.3 - 0.4) ** 2 + (0.1 - 0.4) ** 2 + (0.8 - 0.4) ** 2) / 2)
    half = 4.302653 * deviation / math.sqrt(3)
    assert result.interval.high - result.mean == pytest.approx(half, rel=1e-5)
    assert str(result) == f"0.4000 ± {half:.4f} over 3 runs"


@pytest.mark.parametrize("numbers", [[], [4], [1, 1]])
def test_too_few_and_repeated_numbers_are_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="must be two or more different numbers"):
        run_several(float, numbers)
