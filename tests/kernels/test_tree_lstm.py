"""The Tree-LSTM with its derivative written out against the plain form, which autograd differentiates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.encoders.tree_batch import TreeBatch, TreeBatchBuilder
from catena.encoders.tree_lstm import NaryTreeLSTM
from catena.kernels.tree_lstm.ops import climb_full

BINARY = [[2, 2, 4, 4, -1], [-1], [2, 2, 6, 5, 5, 6, -1], [4, 3, 3, 4, -1]]
TERNARY = [[3, 3, 3, 6, 6, 6, -1], [-1]]
CLOSE = {"rtol": 0.0, "atol": 1e-12}


def results(encoder: NaryTreeLSTM, x: Tensor, batch: TreeBatch, weights: Tensor) -> list[Tensor]:
    """The vectors and all gradients of a weighted sum of them."""
    encoder.zero_grad()
    given = x.clone().requires_grad_()
    found = encoder(given, batch)
    (found * weights).sum().backward()
    assert given.grad is not None
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in encoder.parameters()]
    return [found.detach(), given.grad, *gradients]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize(("trees", "most"), [(BINARY, 2), (TERNARY, 3), ([[-1], [-1]], 2)], ids=["2", "3", "leaves"])
def test_values_and_gradients_equal_the_reference_implementation(
    trees: list[list[int]], most: int, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = NaryTreeLSTM(3, 4, most, dropout).double()
    batch = TreeBatchBuilder.of(trees).batch(np.arange(len(trees)))
    assert encoder._is_full(batch)
    x = torch.randn(len(batch.inputs), 3, dtype=torch.float64)
    weights = torch.randn(batch.n, 4, dtype=torch.float64)
    masks = torch.randint(0, 2, (batch.n, 4)) * 1.5
    used = iter(masks.split(batch.sizes))
    if dropout:  # the same units are dropped both times: all at once, then level by level
        monkeypatch.setattr(NaryTreeLSTM, "_dropped", lambda self, u: u * masks)
    fast = results(encoder, x, batch, weights)
    if dropout:
        monkeypatch.setattr(NaryTreeLSTM, "_dropped", lambda self, u: u * next(used))
    monkeypatch.setattr(NaryTreeLSTM, "_is_full", lambda self, trees: False)
    plain = results(encoder, x, batch, weights)
    torch.testing.assert_close(fast, plain, **CLOSE)


def test_tree_encoder_gradients_equal_finite_differences() -> None:
    batch = TreeBatchBuilder.of(BINARY).batch(np.arange(len(BINARY)))
    d, n = 2, 2
    shapes = [(len(batch.inputs), 3 * d), ((3 + n) * d, n * d), ((3 + n) * d,)]
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    mask = torch.randint(0, 2, (batch.n, d)).double()
    for dropped in (None, mask):

        def run(*given: Tensor, dropped: Tensor | None = dropped) -> Tensor:
            return climb_full(*given, dropped, batch.children, batch.sizes)

        assert torch.autograd.gradcheck(run, given)
