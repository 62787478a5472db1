"""Several seeds or folds give a mean and an interval."""

from __future__ import annotations

import pytest

from catena.training.several import run_several


def test_each_number_is_run_once_and_in_order() -> None:
    ran: list[int] = []

    def score_of(seed: int) -> float:
        ran.append(seed)
        return seed / 10

    result = run_several(score_of, [3, 1, 8], lambda scores: (min(scores), max(scores)))
    assert ran == [3, 1, 8]
    assert result.scores == {3: 0.3, 1: 0.1, 8: 0.8}
    assert (result.mean, result.low, result.high) == (pytest.approx(0.4), 0.1, 0.8)
    assert str(result) == "0.4000 ± 0.3500 over 3 runs"


@pytest.mark.parametrize("numbers", [[], [1, 1]])
def test_no_numbers_and_repeated_ones_are_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="must be some different numbers"):
        run_several(float, numbers, lambda scores: (0.0, 0.0))
