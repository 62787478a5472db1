"""Targets and losses of Q-learning against loops, and the bias of the maximum."""

from __future__ import annotations

import math

import pytest
import torch

from catena.agents.config import DenseQConfig
from catena.agents.network import build_q_network
from catena.agents.spaces import ObservationFormat
from catena.agents.targets import gather_actions, q_targets, td_loss
from tests.oracle import q_learning as oracle


def sample(n: int = 40, a: int = 3) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    rewards = torch.randn(n, dtype=torch.float64, generator=generator)
    terminated = torch.rand(n, generator=generator) < 0.3
    next_q, online = torch.randn(2, n, a, dtype=torch.float64, generator=generator)
    return rewards, terminated, next_q, online


@pytest.mark.parametrize("double", [False, True])
def test_targets_equal_loop(double: bool) -> None:
    rewards, terminated, next_q, online = sample()
    found = q_targets(rewards, terminated, next_q, 0.9, online if double else None)
    assert len(rewards) > 0
    for i in range(len(rewards)):
        chosen_by = online[i].tolist() if double else None
        wanted = oracle.target(rewards[i].item(), bool(terminated[i]), next_q[i].tolist(), 0.9, chosen_by)
        assert found[i].item() == pytest.approx(wanted, abs=1e-12)


def test_double_equals_single_if_target_is_online_network() -> None:
    rewards, terminated, next_q, _ = sample()
    single = q_targets(rewards, terminated, next_q, 0.9)
    assert torch.equal(q_targets(rewards, terminated, next_q, 0.9, next_q), single)


def test_terminated_step_ignores_next_state_even_nan() -> None:
    next_q = torch.tensor([[math.nan, math.inf], [1.0, 2.0]])
    found = q_targets(torch.tensor([3.0, 3.0]), torch.tensor([True, False]), next_q, 0.5)
    assert found.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("kind", ["huber", "squared"])
def test_loss_equals_loop_over_masked_steps(kind: str) -> None:
    q, targets, _ = 3 * sample()[2].T
    mask = torch.arange(len(q)) % 3 > 0
    errors = [(y - x).item() for x, y, counts in zip(q, targets, mask, strict=True) if counts]
    losses = [oracle.huber(error) if kind == "huber" else 0.5 * error**2 for error in errors]
    assert any(abs(error) > 1 for error in errors)
    assert td_loss(q, targets, kind, mask).item() == pytest.approx(sum(losses) / len(losses), abs=1e-12)  # type: ignore[arg-type]


def test_gradient_equals_network_output_as_target_of_other_actions() -> None:
    """The four steps of the classic description: targets of the other actions are the network's own outputs."""
    torch.manual_seed(0)
    network = build_q_network(DenseQConfig(sizes=(5,)), ObservationFormat((3,), "float32"), 4).double()
    observations = torch.randn(6, 3, dtype=torch.float64)
    actions, targets = torch.randint(4, (6,)), torch.randn(6, dtype=torch.float64)
    loss = td_loss(gather_actions(network(observations), actions), targets, "squared")
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    output = network(observations)
    wanted = output.detach().clone()
    for i, action in enumerate(actions.tolist()):
        wanted[i, action] = targets[i]
    classic = 0.5 * (wanted - output).square().sum(1).mean()
    assert len(gradients) > 0
    for one, two in zip(gradients, torch.autograd.grad(classic, list(network.parameters())), strict=True):
        assert torch.allclose(one, two, atol=1e-12)
        assert one.abs().max() > 0


def test_targets_get_no_gradient() -> None:
    q = torch.tensor([1.0], requires_grad=True)
    targets = q * 2
    td_loss(q, targets, "squared").backward()
    assert q.grad is not None
    assert q.grad.item() == -1.0


def test_maximum_of_ten_noisy_arms_is_biased_and_double_is_not() -> None:
    """Ten arms of value 0 with noise of deviation 1: the mean of the maximum is 1.5388 (order statistics)."""
    n = 40_000
    generator = torch.Generator().manual_seed(1)
    noisy, independent = torch.randn(2, n, 10, dtype=torch.float64, generator=generator)
    zeros, running = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.bool)
    assert q_targets(zeros, running, noisy, 1.0).mean().item() == pytest.approx(1.5388, abs=0.02)
    assert q_targets(zeros, running, noisy, 1.0, independent).mean().item() == pytest.approx(0.0, abs=0.02)


def test_double_does_not_exceed_best_mean_of_different_arms() -> None:
    n = 40_000
    generator = torch.Generator().manual_seed(2)
    means = torch.linspace(0, 1, 10, dtype=torch.float64)
    noisy, independent = means + torch.randn(2, n, 10, dtype=torch.float64, generator=generator)
    zeros, running = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.bool)
    assert q_targets(zeros, running, noisy, 1.0).mean() > 1.5
    double = q_targets(zeros, running, noisy, 1.0, independent).mean().item()
    chosen = torch.nn.functional.one_hot(independent.argmax(1), 10).double().mean(0) @ means
    assert double == pytest.approx(chosen.item(), abs=0.02)
    assert double < 1.0
