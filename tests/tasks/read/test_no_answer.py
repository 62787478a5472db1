"""The threshold of no answer compared to all thresholds, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.tasks.read.spans import fit_no_answer_threshold

question = st.tuples(st.integers(-4, 4).map(float), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0]))


def mean(questions: list[tuple[float, float, float]], threshold: float) -> float:
    return sum(none if margin > threshold else answer for margin, answer, none in questions) / len(questions)


@given(st.lists(question, min_size=1, max_size=8))
def test_threshold_is_the_best_of_all(questions: list[tuple[float, float, float]]) -> None:
    margins, answers, none = zip(*questions, strict=True)
    found = fit_no_answer_threshold(margins, answers, none)
    every = {t: mean(questions, t) for t in (x / 4 for x in range(-24, 25))}
    assert found.score == pytest.approx(max(every.values()), abs=1e-12)
    assert mean(questions, found.threshold) == pytest.approx(found.score, abs=1e-12)


def test_threshold_near_zero_is_preferred() -> None:
    assert fit_no_answer_threshold([-5.0, 5.0], [1.0, 0.0], [0.0, 1.0]).threshold == 0
    assert abs(fit_no_answer_threshold([-5.0, 1.0, 3.0], [1.0, 1.0, 1.0], [0.0] * 3).threshold) == 4


def test_threshold_without_questions_raises() -> None:
    with pytest.raises(DataError, match="needs at least one question, got none"):
        fit_no_answer_threshold([], [], [])
