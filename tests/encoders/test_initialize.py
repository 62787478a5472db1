"""Initialization of the weights: each block of each matrix has the distribution of its name."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from catena.encoders.build import build_recurrence, build_recurrent
from catena.encoders.cells import Elman, Recurrence
from catena.encoders.config import RecurrentConfig
from catena.encoders.init import init_weights

CELLS = ["elman", "leaky", "lstm", "peephole_lstm", "coupled_lstm", "gru", "gru_reset_first"]


def made(cell: str, init: str, d_in: int = 30, d: int = 40, layer: int = 1) -> Recurrence:
    recurrence = build_recurrence(RecurrentConfig(cell=cell, d=d, peephole="full"), d_in)
    init_weights(recurrence, init, layer)
    return recurrence


@pytest.mark.parametrize("cell", CELLS)
def test_init_identity_recurrent_matrices(cell: str) -> None:
    recurrence = made(cell, "identity")
    for block in recurrence.recurrent_blocks():
        assert torch.equal(block, torch.eye(40))
    assert all((vector == 0).all() for vector in recurrence.vectors())


@pytest.mark.parametrize("cell", CELLS)
def test_init_orthogonal_recurrent_matrices(cell: str) -> None:
    blocks = list(made(cell, "orthogonal").recurrent_blocks())
    assert blocks
    for block in blocks:
        torch.testing.assert_close(block @ block.t(), torch.eye(40), atol=1e-5, rtol=0)
        assert not torch.equal(block, torch.eye(40))


def is_uniform(block: Tensor, bound: float) -> bool:
    """Whether values are uniform in ±bound: none outside, some near the ends, and the variance bound² / 3."""
    largest = block.abs().max().item()
    return 0.97 * bound < largest <= bound * (1 + 1e-6) and abs(block.var().item() / (bound**2 / 3) - 1) < 0.15


@pytest.mark.parametrize("cell", CELLS)
def test_init_xavier_and_depth_scaled_are_uniform(cell: str) -> None:
    for init, layer, shrink in (("xavier", 4, 1.0), ("depth_scaled", 1, 1.0), ("depth_scaled", 4, 2.0)):
        recurrence = made(cell, init, layer=layer)
        assert all(is_uniform(block, math.sqrt(6 / 70) / shrink) for block in recurrence.input_blocks())
        assert all(is_uniform(block, math.sqrt(6 / 80) / shrink) for block in recurrence.recurrent_blocks())


@pytest.mark.parametrize("cell", CELLS)
def test_init_he_is_normal_with_variance_two_over_fan_in(cell: str) -> None:
    recurrence = made(cell, "he")
    assert list(recurrence.input_blocks())
    assert list(recurrence.recurrent_blocks())
    for block in recurrence.input_blocks():
        assert block.var().item() == pytest.approx(2 / 30, rel=0.2)
    for block in recurrence.recurrent_blocks():
        assert block.var().item() == pytest.approx(2 / 40, rel=0.2)
        assert block.abs().max() > 2.5 * math.sqrt(2 / 40)  # no uniform reaches so far


@pytest.mark.parametrize("cell", CELLS)
def test_init_default_is_uniform(cell: str) -> None:
    recurrence = made(cell, "default")
    assert all(is_uniform(block, 1 / math.sqrt(40)) for block in recurrence.input_blocks())


def test_blocks_are_views_that_cover_every_matrix() -> None:
    for cell in CELLS:
        recurrence = build_recurrence(RecurrentConfig(cell=cell, d=3, peephole="full"), 2)
        with torch.no_grad():
            for view in (*recurrence.input_blocks(), *recurrence.recurrent_blocks(), *recurrence.vectors()):
                view.fill_(7.0)
        assert all((p == 7).all() for p in recurrence.parameters()), cell


@pytest.mark.parametrize("init", ["default", "orthogonal"])
def test_forget_bias_is_set_only_for_the_forget_gate(init: str) -> None:
    for cell, names in (("lstm", "ifgo"), ("peephole_lstm", "ifgo"), ("coupled_lstm", "fog")):
        recurrence = build_recurrence(RecurrentConfig(cell=cell, d=50), 2)
        init_weights(recurrence, init, forget_bias=1.0)
        biases = [v for v in recurrence.vectors() if v.shape == (50 * len(names),)]
        total = sum(biases[1:], biases[0]).detach().view(len(names), 50)
        for name, bias in zip(names, total, strict=True):
            assert torch.equal(bias, torch.ones(50)) == (name == "f"), (cell, name)
    gru = build_recurrence(RecurrentConfig(cell="gru"), 2)
    assert gru.forget_biases() == []


def test_init_config_applies_to_every_layer_and_direction() -> None:
    encoder = build_recurrent(RecurrentConfig(cell="lstm", d=4, n_layers=2, init="identity", forget_bias=3.0), 2)
    for recurrence in (*encoder.forwards, *encoder.backwards):
        assert all(torch.equal(block, torch.eye(4)) for block in recurrence.recurrent_blocks())
        assert (sum(recurrence.forget_biases()) == 3).all()
    deep = build_recurrent(RecurrentConfig(cell="gru", d=30, n_layers=4, init="depth_scaled"), 30)
    ends = [max(block.abs().max().item() for block in r.recurrent_blocks()) for r in deep.forwards]
    assert ends == pytest.approx([math.sqrt(6 / 60 / layer) for layer in (1, 2, 3, 4)], rel=0.02)


def test_identity_relu_network_initially_sums_its_inputs() -> None:
    cell = Elman(2, 2, nn.ReLU())
    init_weights(cell, "identity")
    with torch.no_grad():
        cell.weight_x.copy_(torch.eye(2))
    x = torch.rand(5, 1, 2)
    torch.testing.assert_close(cell(x)[0], x.cumsum(dim=0))
