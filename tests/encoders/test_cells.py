"""Recurrent cells compared to the step-by-step oracle, and backpropagation through time compared to formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from catena.encoders.cells import CoupledLSTM, Elman, GRUResetFirst, Leaky, PeepholeLSTM, Recurrence
from catena.encoders.fused import FusedRecurrence
from catena.encoders.layers import build_activation
from tests.oracle import recurrent as oracle

FUNCTIONS = {
    "identity": lambda x: x,
    "sigmoid": oracle.sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


@pytest.fixture
def x() -> Tensor:
    return torch.randn(7, 2, 3, dtype=torch.float64)


def blocks(weight: Tensor, names: str) -> dict[str, np.ndarray]:
    return dict(zip(names, weight.detach().numpy().reshape(len(names), -1, *weight.shape[1:]), strict=True))


def assert_states(recurrence: Recurrence, x: Tensor, wanted: list[np.ndarray]) -> None:
    states, _ = recurrence(x)
    np.testing.assert_allclose(states.detach().numpy(), np.stack(wanted, axis=1), atol=1e-12)


def each(x: Tensor) -> list[np.ndarray]:
    """The sequences of a time-major batch."""
    return list(x.transpose(0, 1).numpy())


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_elman_equals_oracle(x: Tensor, name: str) -> None:
    cell = Elman(3, 4, build_activation(name)).double()
    u, w, b = (p.detach().numpy() for p in (cell.weight_x, cell.weight_h, cell.bias))
    assert_states(cell, x, [oracle.elman(row, u, w, b, FUNCTIONS[name]) for row in each(x)])


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_fused_elman_equals_oracle(x: Tensor, name: str) -> None:
    cell = FusedRecurrence(f"elman_{name}", 3, 4).double()
    (u,), (w,) = cell.input_blocks(), cell.recurrent_blocks()
    b = sum(v.detach().numpy() for v in cell.vectors())
    wanted = [oracle.elman(row, u.detach().numpy(), w.detach().numpy(), b, FUNCTIONS[name]) for row in each(x)]
    assert_states(cell, x, wanted)


@pytest.mark.parametrize("learned", [False, True])
def test_leaky_equals_oracle(x: Tensor, learned: bool) -> None:
    cell = Leaky(3, 4, build_activation("tanh"), leak=0.3, learn_leak=learned).double()
    leak: float | np.ndarray = 0.3
    if learned:
        assert cell.leak_logit is not None
        np.testing.assert_allclose(cell.leak_logit.sigmoid().detach().numpy(), 0.3, atol=1e-7)
        with torch.no_grad():
            cell.leak_logit.copy_(torch.tensor([-1.0, 0.0, 2.0, 4.0]))
        leak = oracle.sigmoid(np.array([-1.0, 0.0, 2.0, 4.0]))
    u, w, b = (p.detach().numpy() for p in (cell.weight_x, cell.weight_h, cell.bias))
    assert_states(cell, x, [oracle.leaky(row, u, w, b, np.tanh, leak) for row in each(x)])


def test_leaky_with_leak_one_equals_elman(x: Tensor) -> None:
    leaky = Leaky(3, 4, nn.Tanh(), leak=1.0).double()
    elman = Elman(3, 4, nn.Tanh()).double()
    elman.load_state_dict(leaky.state_dict())
    torch.testing.assert_close(leaky(x), elman(x), atol=1e-14, rtol=0)


def test_lstm_equals_oracle(x: Tensor) -> None:
    cell = FusedRecurrence("lstm", 3, 4).double()
    network = cell.network
    u, w = blocks(network.weight_ih_l0, "ifgo"), blocks(network.weight_hh_l0, "ifgo")
    b = blocks(network.bias_ih_l0 + network.bias_hh_l0, "ifgo")
    assert_states(cell, x, [oracle.lstm(row, u, w, b) for row in each(x)])


@pytest.mark.parametrize("peephole", ["full", "diagonal"])
def test_peephole_lstm_equals_oracle(x: Tensor, peephole: str) -> None:
    cell = PeepholeLSTM(3, 4, peephole).double()
    u, w, b = (blocks(p, "ifgo") for p in (cell.weight_x, cell.weight_h, cell.bias))
    p = blocks(cell.peepholes, "ifo")
    assert p["i"].shape == ((4, 4) if peephole == "full" else (4,))
    assert_states(cell, x, [oracle.peephole_lstm(row, u, w, b, p) for row in each(x)])


def test_peephole_lstm_with_zero_peepholes_equals_lstm(x: Tensor) -> None:
    cell, lstm = PeepholeLSTM(3, 4).double(), FusedRecurrence("lstm", 3, 4).double()
    with torch.no_grad():
        cell.peepholes.zero_()
        lstm.network.weight_ih_l0.copy_(cell.weight_x)
        lstm.network.weight_hh_l0.copy_(cell.weight_h)
        lstm.network.bias_ih_l0.copy_(cell.bias)
        lstm.network.bias_hh_l0.zero_()
    torch.testing.assert_close(cell(x), lstm(x), atol=1e-12, rtol=0)


def test_coupled_lstm_equals_oracle(x: Tensor) -> None:
    cell = CoupledLSTM(3, 4).double()
    u, w, b = (blocks(p, "fog") for p in (cell.weight_x, cell.weight_h, cell.bias))
    assert_states(cell, x, [oracle.coupled_lstm(row, u, w, b) for row in each(x)])


def test_gru_reset_first_equals_oracle(x: Tensor) -> None:
    cell = GRUResetFirst(3, 4).double()
    u, w, b = (blocks(p, "zrh") for p in (cell.weight_x, cell.weight_h, cell.bias))
    assert_states(cell, x, [oracle.gru_reset_first(row, u, w, b) for row in each(x)])


def test_gru_reset_after_equals_oracle(x: Tensor) -> None:
    cell = FusedRecurrence("gru", 3, 4).double()
    network = cell.network
    u, w = blocks(network.weight_ih_l0, "rzh"), blocks(network.weight_hh_l0, "rzh")
    b, b_h = blocks(network.bias_ih_l0, "rzh"), blocks(network.bias_hh_l0, "rzh")
    assert_states(cell, x, [oracle.gru_reset_after(row, u, w, b, b_h) for row in each(x)])


@pytest.mark.parametrize("fused", [True, False])
def test_back_propagation_through_time_equals_the_formulas(fused: bool) -> None:
    cell = FusedRecurrence("elman_tanh", 3, 4) if fused else Elman(3, 4, nn.Tanh())
    cell, readout = cell.double(), nn.Linear(4, 5).double()
    x, labels = torch.randn(6, 1, 3, dtype=torch.float64), [0, 4, 2, 2, 1, 3]
    states, _ = cell(x)
    nn.functional.cross_entropy(readout(states[:, 0]), torch.tensor(labels), reduction="sum").backward()

    u, w = (cell.network.weight_ih_l0, cell.network.weight_hh_l0) if fused else (cell.weight_x, cell.weight_h)
    bias = sum(v.detach() for v in cell.vectors())
    arrays = (p.detach().numpy() for p in (u, w, bias, readout.weight, readout.bias))
    wanted = oracle.elman_gradients(x[:, 0].numpy(), labels, *arrays)
    found = {"u": u, "w": w, "b": cell.vectors()[0], "v": readout.weight, "c": readout.bias}
    for name, parameter in found.items():
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), wanted[name], atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    "cell",
    [
        Elman(2, 3, nn.Tanh()),
        Leaky(2, 3, nn.Sigmoid(), 0.4, learn_leak=True),
        PeepholeLSTM(2, 3, "full"),
        PeepholeLSTM(2, 3, "diagonal"),
        CoupledLSTM(2, 3),
        GRUResetFirst(2, 3),
    ],
    ids=lambda cell: type(cell).__name__,
)
def test_gradients_equal_finite_differences(cell: Recurrence) -> None:
    cell = cell.double()
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in cell.named_parameters()]

    def states(x: Tensor, *values: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(cell, dict(zip(names, values, strict=True)), (x,))[0]
        return found

    assert torch.autograd.gradcheck(states, (x, *cell.parameters()))
