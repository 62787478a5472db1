"""Curvature of matrices with known eigenvalues, and of explicit Hessians."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catena.training.diagnose.curvature import extreme_eigenvalues, measure_curvature


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symmetric(values: list[float], seed: int = 0) -> Tensor:
    directions, _ = torch.linalg.qr(torch.randn(len(values), len(values), generator=seeded(seed)).double())
    return (directions * torch.tensor(values).double()) @ directions.T


class TestQuadratics:
    matrix = symmetric([-3.0, 0.5, 1.0, 2.0, 8.0])

    def measured(self, iterations: int = 5):
        x = torch.arange(5.0, dtype=torch.float64).requires_grad_()
        found = measure_curvature(lambda: 0.5 * x @ self.matrix @ x + x[0], [x], iterations=iterations)
        gradient = self.matrix @ x.detach() + torch.eye(5, dtype=torch.float64)[0]
        return found, gradient

    def test_extreme_eigenvalues_are_exact(self) -> None:
        found, _ = self.measured()
        assert found.largest.value == pytest.approx(8, abs=1e-10)
        assert found.smallest.value == pytest.approx(-3, abs=1e-10)

    def test_optimal_step_equals_formula(self) -> None:
        found, g = self.measured()
        assert found.gradient_norm == pytest.approx(g.norm().item(), rel=1e-12)
        assert found.optimal_step == pytest.approx(((g @ g) / (g @ self.matrix @ g)).item(), rel=1e-12)

    def test_optimal_step_minimizes_along_gradient(self) -> None:
        matrix = symmetric([0.5, 1.0, 2.0, 8.0])
        x = torch.ones(4, dtype=torch.float64, requires_grad=True)

        def loss_at(point: Tensor) -> float:
            return (0.5 * point @ matrix @ point).item()

        best = measure_curvature(lambda: 0.5 * x @ matrix @ x, [x], iterations=4).optimal_step
        assert best is not None
        g, here = matrix @ x.detach(), x.detach()
        assert all(loss_at(here - best * g) <= loss_at(here - best * share * g) for share in (0.5, 0.9, 1.1, 2.0))

    def test_negative_curvature_has_no_optimal_step(self) -> None:
        x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        assert measure_curvature(lambda: -(x**2).sum(), [x]).optimal_step is None

    def test_error_bounds_of_few_iterations(self) -> None:
        found, _ = self.measured(iterations=3)
        assert found.largest.error > 1e-6
        true = torch.tensor([-3.0, 0.5, 1.0, 2.0, 8.0])
        for end in (found.largest, found.smallest):
            assert (true - end.value).abs().min() <= end.error + 1e-9


class TestNetworks:
    def test_network_equals_explicit_hessian(self) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()
        x, y = torch.randn(6, 3).double(), torch.tensor([0, 1, 2, 0, 1, 2])
        parameters = dict(model.named_parameters())
        n = sum(p.numel() for p in model.parameters())
        found = measure_curvature(lambda: F.cross_entropy(model(x), y), list(model.parameters()), iterations=n)

        def loss_of(flat: Tensor) -> Tensor:
            parts = torch.split(flat, [p.numel() for p in parameters.values()])
            shaped = {name: part.view_as(p) for (name, p), part in zip(parameters.items(), parts, strict=True)}
            return F.cross_entropy(torch.func.functional_call(model, shaped, (x,)), y)

        here = torch.cat([p.detach().flatten() for p in parameters.values()])
        values = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss_of, here))
        assert found.largest.value == pytest.approx(values[-1].item(), abs=1e-9)
        assert found.smallest.value == pytest.approx(values[0].item(), abs=1e-9)

    @pytest.mark.parametrize("network", [nn.LSTM(3, 4), nn.GRU(3, 4), nn.RNN(3, 4)])
    def test_fused_recurrences_are_supported(self, network: nn.Module) -> None:
        x = torch.randn(5, 2, 3, generator=seeded())
        found = measure_curvature(lambda: network(x)[0].pow(2).mean(), list(network.parameters()), iterations=5)
        assert found.largest.value > 0

    def test_fused_attention_is_supported(self) -> None:
        x = torch.randn(1, 2, 5, 4, generator=seeded(), requires_grad=True)

        def loss() -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, is_causal=True).pow(2).mean()

        assert measure_curvature(loss, [x], iterations=5).largest.value > 0

    def test_linear_loss_and_unused_parameter_are_flat(self) -> None:
        x, unused = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
        found = measure_curvature(lambda: x.sum(), [x, unused])
        assert (found.largest.value, found.smallest.value, found.along_gradient) == (0, 0, 0)

    def test_weights_and_gradients_are_unchanged(self) -> None:
        x = torch.ones(3, requires_grad=True)
        measure_curvature(lambda: x.pow(2).sum(), [x])
        assert x.grad is None
        assert x.tolist() == [1, 1, 1]


def test_eigenvalues_without_stored_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.training.diagnose.curvature._MOST_KEPT", 0)
    matrix = symmetric([-3.0, 0.5, 1.0, 2.0, 8.0])
    smallest, largest = extreme_eigenvalues(matrix.matmul, torch.empty(5).double(), 5, seeded())
    assert (smallest.value, largest.value) == pytest.approx((-3, 8), abs=1e-8)
