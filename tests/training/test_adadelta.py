"""Adadelta with skipped rows equals the plain form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from catena.training import adadelta as module
from catena.training.adadelta import Adadelta
from tests.oracle import optimizers as oracle


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_OF_A_TABLE", 4)


@pytest.mark.usefixtures("small_tables")
def test_skipped_rows_equal_formula_over_all_steps() -> None:
    """Row i has a gradient at some steps only. Most steps have few rows, some have all."""
    table = nn.Parameter(torch.full((6, 1), 0.5, dtype=torch.float64))
    optimizer = Adadelta([table], lr=0.7, rho=0.9, eps=1e-6)
    history: list[list[float]] = [[] for _ in range(6)]
    generator = torch.Generator().manual_seed(0)
    for step in range(40):
        rows = [0, 1, 2, 3, 4, 5] if step % 9 == 4 else [[0], [1, 3], [5], [], [0, 2]][step % 5]
        gradient = torch.zeros(6, 1, dtype=torch.float64)
        gradient[rows] = torch.randn(len(rows), 1, generator=generator, dtype=torch.float64)
        table.grad = gradient
        optimizer.step()
        for row, given in enumerate(history):
            given.append(gradient[row, 0].item())
    expected = [oracle.adadelta(0.5, given, 0.7, 0.9, 1e-6) for given in history]
    assert table.detach()[:, 0].tolist() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adadelta_equals_torch(decay: float) -> None:
    torch.manual_seed(1)
    ours = nn.Embedding(2000, 3)
    theirs = nn.Embedding.from_pretrained(ours.weight.detach().clone(), freeze=False)
    one = Adadelta(ours.parameters(), lr=1.0, rho=0.95, weight_decay=decay)
    two = torch.optim.Adadelta(theirs.parameters(), lr=1.0, rho=0.95, weight_decay=decay)
    for _ in range(15):
        ids = torch.randint(0, 2000, (50,))
        weights = torch.randn(50, 3)
        for model, optimizer in ((ours, one), (theirs, two)):
            optimizer.zero_grad()
            (model(ids) * weights).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-6, rtol=0)


@pytest.mark.usefixtures("small_tables")
def test_rows_without_gradient_are_unchanged_and_nan_is_detected() -> None:
    table = nn.Parameter(torch.ones(8, 2))
    optimizer = Adadelta([table])
    table.grad = torch.zeros(8, 2)
    table.grad[1] = torch.tensor([-1e-30, 0.0])
    table.grad[2] = torch.nan
    optimizer.step()
    assert table[0].tolist() == [1.0, 1.0]
    assert table[2].isnan().all()
    seen = optimizer.state[table]["seen"]
    assert seen.tolist() == [0, 1, 1, 0, 0, 0, 0, 0], "tiny gradients count"


def test_closure_raises_error() -> None:
    with pytest.raises(NotImplementedError, match="does not support a closure"):
        Adadelta([nn.Parameter(torch.ones(1))]).step(lambda: 0.0)
