"""Scores in tables and in JSON: unknown ones are empty or null."""

from __future__ import annotations

import pytest

from catena.tasks.written import NO_SCORE, score_cell, score_value


@pytest.mark.parametrize(
    ("score", "cell", "value"),
    [(-1.23456789, "-1.2346", -1.234568), (0.0, "0.0000", 0.0), (None, "", None), (NO_SCORE, "", None)],
)
def test_scores_in_tables_and_json(score: float | None, cell: str, value: float | None) -> None:
    assert (score_cell(score), score_value(score)) == (cell, value)
