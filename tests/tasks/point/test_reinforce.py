"""Policy gradient on lengths: the gradient against enumeration, and shorter round trips."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from catena import config as configs
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.errors import ConfigError
from catena.metrics.points import tour_length
from catena.seq2seq.config import PointerNetworkConfig
from catena.seq2seq.pointer import PointerInputs, PointerNetwork, build_pointer
from catena.seq2seq.recurrent import draw
from catena.tasks.point.config import PointConfig
from catena.tasks.point.search import reinforced_loss, rollout, surrogate, tour_lengths


def network() -> PointerNetwork:
    torch.manual_seed(1)
    encoder = TransformerConfig(d=8, n_heads=2, n_layers=1, d_ff=8, positions="none", dropout=0.0)
    settings = PointerNetworkConfig(d=8, encoder=encoder, decoder=RecurrentConfig(d=8, bidirectional=False))
    return build_pointer(settings, "order", n_features=2).double()


def sets(*sizes: int) -> PointerInputs:
    torch.manual_seed(2)
    return PointerInputs(torch.rand(len(sizes), max(sizes), 2, dtype=torch.float64), torch.tensor(sizes))


def test_rollouts_are_orders_and_lengths_equal_the_metric() -> None:
    model, things = network(), sets(5, 1, 3)
    for choose in (draw, lambda log_probs: log_probs.argmax(dim=1)):
        ids = rollout(model, things, choose)
        for row, n, found in zip(range(3), (5, 1, 3), tour_lengths(things.values, ids).tolist(), strict=True):
            order = [k - 1 for k in ids[row].tolist()]
            assert sorted(order[:n]) == list(range(n))
            assert set(order[n:]) <= {-1}
            ring = [tuple(things.values[row, k].tolist()) for k in order[:n]]
            assert found == pytest.approx(tour_length(ring), abs=1e-12)


def test_gradient_equals_that_of_the_expected_length() -> None:
    model = network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    every = torch.tensor([[k + 1 for k in order] + [0] for order in permutations(range(4))])
    one = sets(4)
    things = PointerInputs(one.values.expand(len(every), -1, -1), one.lengths.expand(len(every)))
    p = model.token_log_probs(things, every, things.lengths + 1).sum(dim=1).exp()
    assert p.sum().item() == pytest.approx(1.0)
    (p * tour_lengths(things.values, every)).sum().backward()
    wanted = {name: q.grad.clone() for name, q in model.named_parameters() if q.grad is not None}
    assert max(g.abs().max() for g in wanted.values()) > 1e-4
    model.zero_grad()
    (p.detach() * surrogate(model, things, every, torch.full((len(every),), 1.5).double())).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(parameter.grad, wanted[name], atol=1e-10), name


def test_sample_as_long_as_the_baseline_has_zero_gradient() -> None:
    model, things = network(), sets(4, 2, 3)
    greedy = rollout(model, things, lambda log_probs: log_probs.argmax(dim=1))
    assert not surrogate(model, things, greedy, tour_lengths(things.values, greedy)).any()
    torch.manual_seed(0)
    first = reinforced_loss(model, things)
    torch.manual_seed(0)
    assert torch.equal(first, reinforced_loss(model, things))
    first.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_reinforce_for_other_problems_raises() -> None:
    with pytest.raises(ConfigError, match=r"data.problem must be 'tsp' if learning.objective = 'reinforce'"):
        configs.parse(PointConfig, {"data": {"problem": "hull"}, "learning": {"objective": "reinforce"}})
