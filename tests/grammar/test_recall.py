"""The tree with the most expected brackets, compared with all sets of non-crossing brackets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError, ShapeError
from catena.grammar.max_recall_parse import expected_brackets, stack_labels


def crossing(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[0] < other[0] < one[1] < other[1]


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), t=st.integers(1, 4), price=st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_expected_brackets_are_optimal(seed: int, t: int, price: float) -> None:
    counts = np.random.default_rng(seed).random((t, t + 1, 2)) * np.triu(np.ones((t, t + 1)), 1)[..., None]
    spans = [(i, j) for i in range(t) for j in range(i + 1, t + 1)]
    gains = {(i, j): float(np.maximum(counts[i, j] - price, 0).sum()) for i, j in spans}
    best = max(
        sum(gains[span] for span in chosen)
        for n in range(len(spans) + 1)
        for chosen in itertools.combinations(spans, n)
        if not any(crossing(one, other) for one in chosen for other in chosen)
    )
    found = expected_brackets(counts, price)
    assert not any(crossing(one, other) for one in found for other in found)
    assert sum(counts[i, j, q] - price for i, j, q in found) == pytest.approx(best)
    assert all(counts[i, j, q] > price for i, j, q in found)


def test_outer_brackets_come_first_and_labels_by_expectation() -> None:
    counts = np.zeros((2, 3, 3))
    counts[0, 2] = [0.2, 0.6, 0.9]
    counts[0, 1, 0] = 0.7
    assert expected_brackets(counts, 0.5) == [(0, 2, 2), (0, 2, 1), (0, 1, 0)]
    assert expected_brackets(np.zeros((0, 1, 3))) == []


def test_labels_of_span_are_stacked_in_their_usual_order() -> None:
    above = {(1, 2): 5.0, (2, 0): 3.0, (0, 2): 1.0}
    brackets = [(0, 3, 0), (0, 3, 1), (0, 3, 2), (0, 1, 2), (0, 1, 1)]
    assert stack_labels(brackets, lambda p, q: above.get((p, q), 0.0)) == [
        (0, 3, 1),
        (0, 3, 2),
        (0, 3, 0),
        (0, 1, 1),
        (0, 1, 2),
    ]


def test_invalid_arguments_raise() -> None:
    with pytest.raises(DataError, match="price must be between 0 and 1, got 2"):
        expected_brackets(np.zeros((1, 2, 1)), 2.0)
    with pytest.raises(ShapeError, match=r"axes \[t, t \+ 1, q\], got shape \[2, 2, 1\]"):
        expected_brackets(np.zeros((2, 2, 1)))
