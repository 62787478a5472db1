"""Tables as steppers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catena.errors import DataError, ShapeError
from catena.search.table_stepper import TableStepper
from tests.laws.stepper_laws import StepperLaws
from tests.search.models import random_table


class TestTables(StepperLaws):
    @pytest.fixture(params=[(4, 1), (4, 2), (3, 4), (2, 3), (1, 2)], ids=lambda p: f"v={p[0]}, order={p[1]}")
    def make(self, request: pytest.FixtureRequest) -> Callable[[], TableStepper]:
        return lambda: random_table(*request.param)


def test_table_of_rows_handles_the_beginning() -> None:
    stepper = TableStepper.of({(): [0.25, 0.5, 0.25], (0,): [0, 0, 1], (1,): [0.5, 0, 0.5], (1, 0): [1, 0, 0]}, end=2)
    assert stepper.table.shape == (4, 4, 3)
    state = stepper.start(2)
    state = stepper.advance(state, torch.tensor([0, 1]))
    assert stepper.log_probs(state).exp().tolist() == [[0, 0, 1], [0.5, 0, 0.5]]
    state = stepper.advance(state, torch.tensor([0, 0]))
    assert stepper.log_probs(state).exp().tolist() == [[0, 0, 0], [1, 0, 0]]  # nothing was given for 0 0


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({(): [0.5, 0.4]}, "sum to 1"),
        ({(): [0.5, 0.5], (0,): [1.0]}, "2 probabilities"),
        ({(): [1.5, -0.5]}, "sum to 1"),
        ({(): [0.5, 0.5], (2,): [0.5, 0.5]}, "ids below 2"),
    ],
)
def test_table_of_invalid_rows_raises(rows: dict[tuple[int, ...], list[float]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        TableStepper.of(rows, end=0)


@pytest.mark.parametrize(("shape", "end"), [((3, 3), 0), ((4, 3), 3), ((4, 3), -1), ((), 0), ((5, 4, 3), 0)])
def test_table_of_wrong_shape_raises(shape: tuple[int, ...], end: int) -> None:
    with pytest.raises(ShapeError, match="table must have the shape"):
        TableStepper(torch.zeros(shape), end)
