"""How gradients flow: against products of Jacobians and networks whose answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.config import Config
from catena.encoders.build import build_encoder
from catena.encoders.causal import causal
from catena.encoders.cells import CoupledLSTM, GRUResetFirst, Leaky, PeepholeLSTM, Recurrence
from catena.encoders.config import ConvolutionConfig, TransformerConfig
from catena.encoders.fused import FusedRecurrence
from catena.encoders.recurrent import Recurrent
from catena.training.diagnose.flow import decay, jacobian, measure_flow, spectral_radius

MAKERS = {
    "lstm": lambda d_in, layer: FusedRecurrence("lstm", d_in, 3),
    "gru": lambda d_in, layer: FusedRecurrence("gru", d_in, 3),
    "elman": lambda d_in, layer: FusedRecurrence("elman_tanh", d_in, 3),
    "peephole": lambda d_in, layer: PeepholeLSTM(d_in, 3),
    "diagonal": lambda d_in, layer: PeepholeLSTM(d_in, 3, "diagonal"),
    "coupled": lambda d_in, layer: CoupledLSTM(d_in, 3),
    "reset first": lambda d_in, layer: GRUResetFirst(d_in, 3),
    "leaky": lambda d_in, layer: Leaky(d_in, 3, torch.nn.Tanh(), 0.5),
}


def total(y: Tensor) -> Tensor:
    return y.sum()


def state_of(recurrence: Recurrence) -> tuple[Tensor, ...]:
    return tuple(torch.randn(recurrence.d).double() * 0.5 for _ in range(recurrence.n_states))


@pytest.fixture(params=sorted(MAKERS))
def recurrence(request: pytest.FixtureRequest) -> Recurrence:
    torch.manual_seed(1)
    return MAKERS[request.param](2, 1).double()


class TestJacobians:
    def test_jacobian_equals_finite_differences(self, recurrence: Recurrence) -> None:
        x, before = torch.randn(2).double(), state_of(recurrence)
        found = jacobian(recurrence, x, before)
        flat, h = torch.cat(before), 1e-6

        def after(start: Tensor) -> Tensor:
            parts = start.split(recurrence.d)
            return torch.cat([part[0] for part in recurrence(x.view(1, 1, 2), tuple(p[None] for p in parts))[1]])

        assert found.shape == (flat.numel(), flat.numel())
        for j in range(flat.numel()):
            nudge = torch.zeros_like(flat)
            nudge[j] = h
            column = (after(flat + nudge) - after(flat - nudge)) / (2 * h)
            assert torch.allclose(found[:, j], column, atol=1e-8)

    @pytest.mark.parametrize("seed", range(4))
    def test_the_spectral_radius_is_the_largest_eigenvalue(self, seed: int) -> None:
        matrix = torch.randn(6, 6, generator=torch.Generator().manual_seed(seed)).double()
        true = torch.linalg.eigvals(matrix).abs().max().item()
        assert spectral_radius(matrix) == pytest.approx(true, rel=2e-3)

    def test_a_matrix_whose_powers_end_has_radius_0(self) -> None:
        assert spectral_radius(torch.diag(torch.ones(3), 1)) == 0
        assert spectral_radius(torch.zeros(2, 2)) == 0


class TestFlow:
    def test_gradients_by_state_are_products_of_jacobians(self, recurrence: Recurrence) -> None:
        encoder = Recurrent(2, lambda d_in, layer: recurrence)
        x = torch.randn(1, 5, 2).double()
        flow = measure_flow(encoder, x, total, looks=2)
        state = tuple(torch.zeros(recurrence.d).double() for _ in range(recurrence.n_states))
        steps = []
        for at in range(5):
            steps.append(jacobian(recurrence, x[0, at], state))
            _, found = recurrence(x[0, at].view(1, 1, 2), tuple(part[None] for part in state))
            state = tuple(part[0].detach() for part in found)
        reach = torch.cat([torch.ones(recurrence.d), torch.zeros(recurrence.d * (recurrence.n_states - 1))]).double()
        for k in range(5):
            assert flow.layers[0].gradients[k] == pytest.approx(reach.norm().item(), rel=1e-9)
            reach = reach @ steps[4 - k]
        assert flow.layers[0].radii[0] == pytest.approx(torch.linalg.eigvals(steps[0]).abs().max().item(), rel=2e-3)

    def test_gradients_by_input_are_autograds_of_the_whole_pass(self, recurrence: Recurrence) -> None:
        encoder = Recurrent(2, lambda d_in, layer: recurrence)
        x = torch.randn(3, 5, 2).double().requires_grad_()
        encoder(x, torch.full((3,), 5))[:, -1].sum().backward()
        assert x.grad is not None
        wanted = x.grad.norm(dim=-1).mean(0).flip(0).tolist()
        assert measure_flow(encoder, x, total).inputs == pytest.approx(wanted, rel=1e-9)

    def test_stacks_have_a_line_for_each_layer(self) -> None:
        encoder = Recurrent(2, MAKERS["lstm"], n_layers=2)
        assert len(measure_flow(encoder, torch.randn(2, 4, 2), total).layers) == 2

    @pytest.mark.parametrize(
        "settings",
        [
            TransformerConfig(d=8, n_heads=2, n_layers=1, causal=True),
            ConvolutionConfig(filters=4, padding="causal"),
        ],
    )
    def test_encoders_without_recurrence_have_only_inputs(self, settings: Config) -> None:
        torch.manual_seed(0)
        encoder = causal(build_encoder(settings, 8)).eval()  # type: ignore[arg-type]
        x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
        flow = measure_flow(encoder, x, lambda y: y.pow(2).sum())
        (gradient,) = torch.autograd.grad(encoder(x, torch.tensor([5, 5]))[:, -1].pow(2).sum(), x)
        assert flow.inputs == pytest.approx(gradient.norm(dim=-1).mean(dim=0).flip(0).tolist(), rel=1e-4, abs=1e-7)
        assert flow.layers == []

    def test_nothing_is_left_on_the_encoder(self) -> None:
        encoder = Recurrent(2, MAKERS["lstm"])
        measure_flow(encoder, torch.randn(1, 2, 2), total)
        assert all(not module._forward_hooks for module in encoder.modules())
        assert all(parameter.grad is None for parameter in encoder.parameters())


class TestGates:
    def test_one_step_follows_from_the_gates(self, recurrence: Recurrence) -> None:
        """The gates, put into each recurrence's formula, give the state that the recurrence gives."""
        x, before = torch.randn(4, 2).double(), tuple(torch.randn(4, 3).double() for _ in range(recurrence.n_states))
        _, after = recurrence(x[None], before)
        gates = recurrence.gates(x, before)
        if set(gates) == {"input", "forget", "output"}:
            assert torch.allclose(after[0], gates["output"] * after[1].tanh())
            new = (after[1] - gates["forget"] * before[1]) / gates["input"]
            assert (new.abs() <= 1 + 1e-9).all()
        elif set(gates) == {"forget", "output"}:
            assert torch.allclose(after[0], gates["output"] * after[1].tanh())
            assert (((after[1] - gates["forget"] * before[1]) / (1 - gates["forget"])).abs() <= 1 + 1e-9).all()
        elif set(gates) == {"update", "reset"}:
            keep = gates["update"] if isinstance(recurrence, FusedRecurrence) else 1 - gates["update"]
            assert (((after[0] - keep * before[0]) / (1 - keep)).abs() <= 1 + 1e-9).all()
        else:
            assert torch.equal(gates["state"], after[0].abs())

    def test_a_forget_gate_held_open_is_open_and_lets_the_gradient_through(self) -> None:
        recurrence = FusedRecurrence("lstm", 2, 3)
        with torch.no_grad():
            for parameter in recurrence.parameters():
                parameter.zero_()
            recurrence.forget_biases()[0].fill_(20.0)
        flow = measure_flow(Recurrent(2, lambda d_in, layer: recurrence), torch.randn(1, 30, 2), total)
        (layer,) = flow.layers
        assert (layer.gates["forget"].open, layer.gates["forget"].closed) == (1, 0)
        assert (layer.gates["input"].open, layer.gates["input"].closed) == (0, 0)
        assert layer.radii == pytest.approx([1, 1, 1], rel=1e-4)
        assert decay(layer.gradients[1:]) == pytest.approx(1, rel=1e-4)


class TestDecay:
    def test_a_geometric_series_has_its_ratio(self) -> None:
        assert decay([3 * 0.7**k for k in range(20)]) == pytest.approx(0.7)

    def test_one_point_says_nothing_and_zeros_say_the_end(self) -> None:
        assert decay([1.0]) is None
        assert decay([]) is None
        assert decay([1.0, 0.0, 0.0]) == 0
