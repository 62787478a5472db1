"""A table of trained and frozen rows compared to one table with both."""

from __future__ import annotations

import pytest
import torch

from catena.embeddings import PartlyFrozenTable
from catena.errors import ShapeError

IDS = torch.tensor([[0, 1, 4], [2, 3, 3]])


def test_rows_equal_those_of_one_table() -> None:
    frozen = torch.randn(3, 4)
    table = PartlyFrozenTable(2, frozen)
    whole = torch.cat((table.trained.weight, frozen))
    assert torch.equal(table(IDS), whole[IDS])
    assert (whole[0] == 0).all()


def test_only_trained_rows_have_gradients() -> None:
    table = PartlyFrozenTable(2, torch.randn(3, 4))
    assert [name for name, _ in table.named_parameters()] == ["trained.weight"]
    table(IDS).sum().backward()
    assert table.trained.weight.grad is not None
    assert table.trained.weight.grad.tolist() == [[0.0] * 4, [1.0] * 4]


def test_frozen_rows_are_saved() -> None:
    table, other = PartlyFrozenTable(2, torch.randn(3, 4)), PartlyFrozenTable(2, torch.zeros(3, 4))
    other.load_state_dict(table.state_dict())
    assert torch.equal(table(IDS), other(IDS))


def test_without_frozen_rows_it_is_an_ordinary_table() -> None:
    table = PartlyFrozenTable(5, torch.zeros(0, 4))
    assert torch.equal(table(IDS), table.trained(IDS))


def test_dropout_is_for_training_only() -> None:
    table = PartlyFrozenTable(2, torch.ones(3, 4), dropout=0.5)
    assert (table(torch.full((1, 200), 3)) == 0).any()
    assert not (table.eval()(torch.full((1, 200), 3)) == 0).any()


def test_table_without_trained_rows_raises() -> None:
    with pytest.raises(ShapeError, match="n_trained must be at least 1, got 0"):
        PartlyFrozenTable(0, torch.ones(1, 1))
